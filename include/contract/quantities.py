"""Durations and sizes as people write them: `5 seconds`, `1 MB`. A number without its unit is refused."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
BYTES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
LARGEST = 10**9  # of any unit: beyond it timedelta overflows, and nobody means it


def parse_duration(value: Any) -> timedelta:
    number, unit = _split(value, "5 seconds")
    seconds = SECONDS.get(unit.removesuffix("s"))
    if seconds is None:
        raise ValueError(f"has the unit {unit!r}; use seconds, minutes, hours or days")
    return timedelta(seconds=number * seconds)


def in_words(duration: timedelta) -> str:
    """As a person would write it: in the largest unit of which it is a whole number."""
    seconds = int(duration.total_seconds())
    unit = next(name for name in reversed(SECONDS) if seconds % SECONDS[name] == 0)
    number = seconds // SECONDS[unit]
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def parse_bytes(value: Any) -> int:
    number, unit = _split(value, "1 MB")
    if unit not in BYTES:
        raise ValueError(f"has the unit {unit!r}; use {', '.join(BYTES)}")
    return number * BYTES[unit]


def _split(value: Any, example: str) -> tuple[int, str]:
    match = re.fullmatch(r"([0-9]{1,9}) *([A-Za-z]+)", value) if isinstance(value, str) else None
    if not match or not 0 < int(match[1]) <= LARGEST:
        raise ValueError(f"is not a positive whole number with a unit, such as {example}")
    return int(match[1]), match[2]


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(lambda value: f"{value.total_seconds():.0f} seconds", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,9} *(second|minute|hour|day)s?$"}),
]
ByteCount = Annotated[
    int,
    BeforeValidator(parse_bytes),
    PlainSerializer(lambda value: f"{value} B", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": f"^[0-9]{{1,9}} *({'|'.join(BYTES)})$"}),
]
