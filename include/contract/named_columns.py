"""Columns that a stream file names: each must be there, and be named once."""

from collections.abc import Callable

from include.contract.problems import Problem, nearest
from include.contract.stream_spec import RecordSchema

MakeProblem = Callable[..., Problem]


def check_names(key: str, names: list[str], valid: list[str], problem: MakeProblem, *path: str | int) -> list[Problem]:
    unknown = [(number, name) for number, name in enumerate(names) if name not in valid]
    return [
        *(problem(f"{key} names {name!r}, which is no column.{nearest(name, valid)}", *path, number) for number, name in unknown),
        *doubled(names, key, problem, *path),
    ]


def known_types(names: list[str], schema: RecordSchema) -> dict[str, str]:
    """Of the schema's own fields, in lower case; what `select` makes, Spark knows when the stream starts."""
    return {name: schema.fields[name].type.strip().lower() for name in names if name in schema.fields}


def doubled(names: list[str], key: str, problem: MakeProblem, *path: str | int) -> list[Problem]:
    """Spark does not tell upper from lower case in column names."""
    lowered = [name.lower() for name in names]
    again = [name for position, name in enumerate(names) if name.lower() in lowered[:position]]
    return [problem(f"{key} has the column {name!r} a second time.", *(path or (key, name))) for name in again]
