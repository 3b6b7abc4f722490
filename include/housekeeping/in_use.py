"""What of a stream is still used: its newest generation, and every driver that may live. Decides what must be kept."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from include.contract.identity import LAUNCH_VARIABLE
from include.control.database import ControlDatabase
from include.control.drivers import newest_generations, read_unended
from include.processes.by_environment import find_values


class Reason(StrEnum):
    """Why something is kept."""

    YOUNG = "younger than the retention"
    NEWEST = "of the newest generation or a later one"
    LIVING = "of a driver that may live"
    UNKNOWN = "of a stream whose generations are not in the control database"
    FOREIGN = "with a name that is not ours"


@dataclass(frozen=True)
class InUse:
    newest: dict[str, int]  # generation of each stream
    generations: frozenset[tuple[str, int]]  # of drivers that may live
    launches: frozenset[str]  # likewise


@dataclass(frozen=True)
class Found:
    """A checkpoint folder or a driver's log. With neither generation nor launch its name is not ours."""

    stream: str
    written_at: float
    generation: int | None = None
    launch: str | None = None


def read_in_use(control: ControlDatabase, quiet: timedelta) -> InUse:
    """A driver may live if a process carries its launch, or if no end of it is recorded and it was heard of lately."""
    living = find_values(LAUNCH_VARIABLE)
    with control.transaction() as cursor:
        newest = newest_generations(cursor)
        unended = read_unended(cursor, quiet, living)
    generations = frozenset((stream, number) for stream, _, number in unended if number is not None)
    return InUse(newest, generations, frozenset(launch for _, launch, _ in unended) | living)


def why_keep(found: Found, in_use: InUse, before: float) -> Reason | None:
    """None: it may go. A driver that starts meanwhile takes a number above the newest, so this stays true."""
    if found.generation is None and found.launch is None:
        return Reason.FOREIGN
    if found.launch in in_use.launches or (found.stream, found.generation) in in_use.generations:
        return Reason.LIVING
    if found.generation is not None and found.stream not in in_use.newest:
        return Reason.UNKNOWN
    if found.generation is not None and found.generation >= in_use.newest[found.stream]:
        return Reason.NEWEST
    return Reason.YOUNG if found.written_at >= before else None
