"""The table of `make status`."""

import os

from include.local_stack.stack import PartStatus

COLUMNS = ("PART", "STATE", "PORT", "PID", "AGE", "WHAT WAS SEEN")
DETAIL_WIDTH = 100


def render(parts: list[PartStatus]) -> str:
    rows = [COLUMNS, *(_row(part) for part in parts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return os.linesep.join(lines)


def _row(part: PartStatus) -> tuple[str, ...]:
    detail = part.detail if len(part.detail) <= DETAIL_WIDTH else part.detail[: DETAIL_WIDTH - 3] + "..."
    return (part.name, part.state, str(part.port or "-"), str(part.pid or "-"), _age(part.age_seconds), detail)


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit_seconds, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds:.0f} {unit}"
    return f"{seconds:.0f} s"
