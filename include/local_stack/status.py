"""How a part is doing, and the table of `make status`. Reads only."""

from collections.abc import Callable
from dataclasses import dataclass

from include.contract.text_table import age, align, cut
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
    return align([COLUMNS, *(_row(part) for part in parts)])


def _row(part: PartStatus) -> tuple[str, ...]:
    old = "-" if part.age_seconds is None else age(part.age_seconds)
    return (part.name, part.state, str(part.port or "-"), str(part.pid or "-"), old, cut(part.detail, DETAIL_WIDTH))
