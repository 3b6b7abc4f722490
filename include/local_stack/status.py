"""How a part is doing, and the table of `make status`. Reads only."""

from collections.abc import Callable
from dataclasses import dataclass

from include.local_stack.part import NotHealthy, Part

COLUMNS = ("PART", "STATE", "PORT", "PID", "AGE", "WHAT WAS SEEN")
DETAIL_WIDTH = 100


@dataclass(frozen=True)
class PartStatus:
    name: str
    state: str  # healthy, unhealthy, died or stopped
    port: int | None
    pid: int | None
    age_seconds: float | None
    detail: str

    @property
    def is_healthy(self) -> bool:
        return self.state == "healthy"


def describe(part: Part) -> PartStatus:
    process = part.process
    if process is None:
        return PartStatus(part.name, "stopped", part.port, None, None, "not started")
    if not process.is_alive():
        last = part.last_log_lines(1)
        return PartStatus(part.name, "died", part.port, process.pid, None, last[0] if last else "no log")
    state, detail = _ask(part.check_health)
    return PartStatus(part.name, state, part.port, process.pid, process.age_seconds(), detail)


def _ask(check_health: Callable[[], str]) -> tuple[str, str]:
    try:
        return "healthy", check_health()
    except NotHealthy as reason:
        return "unhealthy", str(reason)


def render(parts: list[PartStatus]) -> str:
    rows = [COLUMNS, *(_row(part) for part in parts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


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
