"""Loads every stream file with the schema it names, and finds everything that is wrong with them at once."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from include.contract.columns import check_columns, check_types
from include.contract.identity import QUARANTINE_FOLDER
from include.contract.located_yaml import LocatedYaml, NotReadable, read_located
from include.contract.problems import Problem, StreamFilesInvalid, from_validation, nearest
from include.contract.stream_spec import Name, RecordSchema, Section, StreamSpec

CONFIG = Path(__file__).resolve().parents[2] / "config"
SectionType = TypeVar("SectionType", bound=Section)


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
    name: str
    shown: str
    located: LocatedYaml

    def problem(self, complaint: str, *path: str | int) -> Problem:
        return Problem(self.shown, self.located.line_of(path), complaint)


def load_streams(config: Path = CONFIG) -> dict[str, Stream]:
    """By name. Raises StreamFilesInvalid with every problem of every file."""
    problems: list[Problem] = []
    schemas = _load_folder(config, "schemas", RecordSchema, problems)
    for file, schema in schemas.values():
        problems += check_types(schema, file.problem)
    specs = _load_folder(config, "streams", StreamSpec, problems)
    streams: dict[str, Stream] = {}
    for name, (file, spec) in specs.items():
        schema_name = spec.decode.record_schema
        if schema_name in schemas:
            streams[name] = Stream(name, spec, schemas[schema_name][1])
            problems += check_columns(spec, streams[name].schema, file.problem)
        elif not (config / "schemas" / f"{schema_name}.yaml").exists():  # a broken one was told already
            complaint = f"decode.schema is {schema_name!r}, but there is no config/schemas/{schema_name}.yaml."
            problems.append(file.problem(complaint + nearest(schema_name, schemas), "decode", "schema"))
    problems += _check_tables(specs)
    if problems:
        raise StreamFilesInvalid(problems)
    return streams


def _load_folder(
    config: Path, folder: str, model: type[SectionType], problems: list[Problem]
) -> dict[str, tuple[_File, SectionType]]:
    loaded = {}
    for path in sorted((config / folder).glob("*.yaml")):
        result = _load_file(path, f"config/{folder}/{path.name}", model, problems)
        if result:
            loaded[path.stem] = result
    return loaded


def _load_file(path: Path, shown: str, model: type[SectionType], problems: list[Problem]) -> tuple[_File, SectionType] | None:
    try:
        file = _File(path.stem, shown, read_located(path.read_bytes()))
    except NotReadable as error:
        problems.append(Problem(shown, error.line, f"{error.complaint}."))
        return None
    try:
        _Named(name=path.stem)
        return file, model.model_validate(file.located.data)
    except ValidationError as error:
        wrong: type[Section] = _Named if error.title == "_Named" else model
        problems += from_validation(shown, file.located, wrong, error)
        return None


def _check_tables(specs: dict[str, tuple[_File, StreamSpec]]) -> list[Problem]:
    """Two sinks that write one table would fence each other for ever."""
    problems = []
    owners = {QUARANTINE_FOLDER: "every stream's quarantine"}
    for name, (file, spec) in specs.items():
        for sink, settings in spec.sinks.items():
            if settings.table in owners:
                complaint = f"sinks.{sink}.table is {settings.table!r}, which belongs to {owners[settings.table]} already."
                problems.append(file.problem(complaint, "sinks", sink, "table"))
            owners.setdefault(settings.table, f"{name}.{sink}")
    return problems
