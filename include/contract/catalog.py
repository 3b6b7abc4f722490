"""Loads every stream file with the schema it names, and finds everything that is wrong with them at once."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from include.contract.columns import check_columns, check_types
from include.contract.errors import TidemarkError
from include.contract.identity import QUARANTINE, rejects_topic, tidemarks_topic
from include.contract.located_yaml import LocatedYaml, NotReadable, read_located
from include.contract.problems import Problem, StreamFilesInvalid, from_validation, nearest
from include.contract.stream_spec import PUBLIC, KafkaOutput, LakeTable, Name, RecordSchema, Section, Sink, StreamSpec

LAKE = ""  # beside connection ids, which are never empty
SectionType = TypeVar("SectionType", bound=Section)


class UnknownStream(TidemarkError):
    """No stream file of this name."""


class _Named(Section):
    name: Name


@dataclass(frozen=True)
class Stream:
    """A valid stream: its file and its schema, both complete."""

    name: str
    spec: StreamSpec
    schema: RecordSchema


@dataclass(frozen=True)
class _File:
    shown: str
    located: LocatedYaml

    def problem(self, complaint: str, *path: str | int) -> Problem:
        return Problem(self.shown, self.located.line_of(path), complaint)


@dataclass(frozen=True)
class Catalog:
    """The streams that are valid, and what is wrong with the others: one bad file must not hide the good ones."""

    streams: dict[str, Stream]
    problems: list[Problem]


def config_folder() -> Path:
    return Path(os.environ.get("TIDEMARK_CONFIG") or Path(__file__).resolve().parents[2] / "config")


def find_stream(name: str) -> Stream:
    """Another stream's broken file is no reason against this one."""
    catalog = read_catalog()
    if name in catalog.streams:
        return catalog.streams[name]
    if catalog.problems:
        raise StreamFilesInvalid(catalog.problems)
    raise UnknownStream(
        f"There is no config/streams/{name}.yaml.{nearest(name, catalog.streams)}",
        state="Nothing was started or read.",
        next_step="Run `make streams` to see all of them.",
    )


def load_streams(config: Path | None = None) -> dict[str, Stream]:
    """By name. Raises StreamFilesInvalid with every problem of every file."""
    catalog = read_catalog(config)
    if catalog.problems:
        raise StreamFilesInvalid(catalog.problems)
    return catalog.streams


def read_catalog(config: Path | None = None) -> Catalog:
    config = config or config_folder()
    problems: list[Problem] = []
    schemas = _load_folder(config, "schemas", RecordSchema, problems)
    for file, schema in schemas.values():
        problems += check_types(schema, file.problem)
    specs = _load_folder(config, "streams", StreamSpec, problems)
    for file, spec in specs.values():
        problems += _check_with_schema(file, spec, schemas, config)
    problems += _check_tables(specs)
    bad_files = {problem.file for problem in problems}
    streams = {
        name: Stream(name, spec, schemas[spec.decode.record_schema][1])
        for name, (file, spec) in specs.items()
        if not bad_files & {file.shown, f"config/schemas/{spec.decode.record_schema}.yaml"}
    }
    return Catalog(streams, problems)


def _check_with_schema(
    file: _File, spec: StreamSpec, schemas: dict[str, tuple[_File, RecordSchema]], config: Path
) -> list[Problem]:
    name = spec.decode.record_schema
    if name in schemas:
        return check_columns(spec, schemas[name][1], file.problem)
    if (config / "schemas" / f"{name}.yaml").exists():
        return []  # it is broken, and told already
    complaint = f"decode.schema is {name!r}, but there is no config/schemas/{name}.yaml."
    return [file.problem(complaint + nearest(name, schemas), "decode", "schema")]


def _load_folder(
    config: Path, folder: str, model: type[SectionType], problems: list[Problem]
) -> dict[str, tuple[_File, SectionType]]:
    if not (config / folder).is_dir():
        problems.append(Problem(f"config/{folder}", 1, "this folder is missing."))
        return {}
    loaded = {}
    for path in sorted((config / folder).iterdir()):
        shown = f"config/{folder}/{path.name}"
        if path.name.startswith("."):  # an editor's lock or backup
            continue
        if path.suffix != ".yaml":
            problems.append(Problem(shown, 1, "only files that end in .yaml are read here; rename it or move it away."))
        elif result := _load_file(path, shown, model, problems):
            loaded[path.stem] = result
    return loaded


def _load_file(path: Path, shown: str, model: type[SectionType], problems: list[Problem]) -> tuple[_File, SectionType] | None:
    try:
        file = _File(shown, read_located(path.read_bytes()))
        _Named(name=path.stem)
        return file, model.model_validate(file.located.data)
    except NotReadable as error:
        problems.append(Problem(shown, error.line, f"{error.complaint}."))
    except OSError as error:
        problems.append(Problem(shown, 1, f"this cannot be read: {error.strerror}."))
    except ValidationError as error:
        wrong: type[Section] = _Named if error.title == "_Named" else model
        problems += from_validation(shown, file.located, wrong, error)
    return None


def _check_tables(specs: dict[str, tuple[_File, StreamSpec]]) -> list[Problem]:
    """Two sinks that write one place would fence each other for ever."""
    problems = []
    owners = {(LAKE, QUARANTINE): "every stream's quarantine"}
    for name, (file, spec) in specs.items():
        for sink, settings in spec.sinks.items():
            key, shown = ("topic", settings.topic) if isinstance(settings, KafkaOutput) else ("table", settings.table)
            places = _places(settings)
            if taken := [place for place in places if place in owners]:
                complaint = f"sinks.{sink}.{key} is {shown!r}, which belongs to {owners[taken[0]]} already."
                problems.append(file.problem(complaint, "sinks", sink, key))
            owners |= {place: f"{name}.{sink}" for place in places if place not in owners}
            if sink == QUARANTINE:
                problems.append(
                    file.problem(f"a sink cannot be called {sink!r}: every stream has its quarantine.", "sinks", sink)
                )
    return problems


def _places(sink: Sink) -> list[tuple[str, str]]:
    """All that a sink writes."""
    if isinstance(sink, LakeTable):
        return [(LAKE, sink.table)]
    if isinstance(sink, KafkaOutput):
        return [(sink.connection, topic) for topic in (sink.topic, tidemarks_topic(sink.topic), rejects_topic(sink.topic))]
    return [(sink.connection, sink.table if "." in sink.table else f"{PUBLIC}.{sink.table}")]
