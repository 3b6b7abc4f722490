"""What is wrong with a file, and where: file, line, key, value, and the nearest thing that would be right."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from include.contract.errors import TidemarkError
from include.contract.located_yaml import LocatedYaml, Path

VALUE_WIDTH = 60


@dataclass(frozen=True)
class Problem:
    file: str
    line: int
    complaint: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.complaint}"


class StreamFilesInvalid(TidemarkError):
    """One or more stream or schema files cannot be used as they stand."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        super().__init__(
            f"{count} in the stream files:\n  " + "\n  ".join(str(problem) for problem in problems) + "\n",
            state="Nothing was started or changed.",
            next_step="Mend them, then run `make check`.",
        )


def nearest(value: object, valid: Iterable[str]) -> str:
    """A sentence that names the nearest valid value, or all of them if none is near and they are few."""
    choices = sorted(valid)
    if near := get_close_matches(str(value), choices, n=1, cutoff=0.6):
        return f" Did you mean {near[0]!r}?"
    return f" There is: {', '.join(choices)}." if 0 < len(choices) <= 12 else ""


def from_validation(file: str, located: LocatedYaml, model: type[BaseModel], error: ValidationError) -> list[Problem]:
    return [_translate(file, located, model, detail) for detail in error.errors(include_url=False)]


def _translate(file: str, located: LocatedYaml, model: type[BaseModel], detail: ErrorDetails) -> Problem:
    located_path: Path = tuple(part for part in detail["loc"] if part != "[key]")
    path = _as_written(located.data, located_path)
    key = ".".join(str(part) for part in path) or "the file"
    value = _shown(detail["input"])
    match detail["type"]:
        case "missing":
            complaint = f"{key} is missing."
        case "extra_forbidden":
            complaint = f"{key} is not a key that is known here.{nearest(path[-1], _keys_at(model, located_path[:-1]))}"
        case "literal_error":
            complaint = f"{key} is {value}, but must be {_one_of(detail['ctx']['expected'], detail['input'])}"
        case "union_tag_not_found":
            complaint = f"{key}.{_unquoted(detail)} is missing."
        case "union_tag_invalid":
            path, tag = (*path, _unquoted(detail)), detail["ctx"]["tag"]
            complaint = f"{key}.{path[-1]} is {tag!r}, but must be {_one_of(detail['ctx']['expected_tags'], tag)}"
        case "value_error":
            complaint = f"{key} is {value}, which {detail['ctx']['error']}."
        case "string_pattern_mismatch":
            complaint = f"{key} is {value}, which does not fit {detail['ctx']['pattern']}."
        case _:
            complaint = f"{key} is {value}: {detail['msg'][:1].lower()}{detail['msg'][1:]}."
    return Problem(file, located.line_of(path), complaint)


def _as_written(data: Any, path: Path) -> Path:
    """Where there are several kinds of a thing, pydantic puts the kind into the path; the file has it as a value."""
    written: list[str | int] = []
    for part in path:
        if isinstance(data, dict) and part not in data and data.get("kind") == part:
            continue
        written.append(part)
        data = data.get(part) if isinstance(data, dict) else None
    return tuple(written)


def _one_of(quoted: object, value: object) -> str:
    valid = str(quoted).split("'")[1::2]
    return f"{' or '.join(valid)}.{nearest(value, valid)}"


def _unquoted(detail: ErrorDetails) -> str:
    return str(detail["ctx"]["discriminator"]).strip("'")


def _unless_none(annotation: Any) -> Any:
    """Of a section that may be left out, the section."""
    if not isinstance(annotation, UnionType):
        return annotation
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 else annotation


def _is_kind(model: type[BaseModel], name: object) -> bool:
    return name in get_args(model.model_fields["kind"].annotation)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= VALUE_WIDTH else text[: VALUE_WIDTH - 3] + "..."


def _keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that the model knows at this place."""
    current: Any = model
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            fields = {field.alias or name: field.annotation for name, field in current.model_fields.items()}
            current = _unless_none(fields.get(str(part)))
        elif get_origin(current) is dict:
            current = get_args(current)[1]
        elif get_origin(current) is Annotated:  # one of several kinds
            current = next((kind for kind in get_args(get_args(current)[0]) if _is_kind(kind, part)), None)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return [field.alias or name for name, field in current.model_fields.items()]
    return []
