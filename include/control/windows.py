"""Reconciliation windows: which offsets were chosen, what was measured in them, and how they were judged (P7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import Json
from psycopg2.sql import SQL

from include.control.window_contents import Audited, Measured

COLUMNS = (
    "id, stream, sink, run, by_hand, epoch, topic_id, after_version, up_to_version, snapshot, starts, ends, chosen_at,"
    " audited, measured, verdict, told, judged_at"
)


class Verdict(StrEnum):
    """Only PASSED says that the books balance. All but REOPENED close a window."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"
    REOPENED = "reopened"


@dataclass(frozen=True)
class Chosen:
    """What a window is, before it has an id."""

    stream: str
    sink: str
    run: str
    by_hand: bool
    epoch: int
    topic_id: str
    after_version: int
    up_to_version: int
    snapshot: int
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """[start, end) of the partitions in which the tidemark moved."""
        found = {number: (self.starts.get(number, 0), end) for number, end in sorted(self.ends.items())}
        return {number: (start, end) for number, (start, end) in found.items() if start < end}

    @property
    def offsets(self) -> int:
        return sum(end - start for start, end in self.ranges.values())

    def holds(self, other: "Chosen") -> bool:
        return self.epoch == other.epoch and all(
            number in self.ranges and self.ranges[number][0] <= start and end <= self.ranges[number][1]
            for number, (start, end) in other.ranges.items()
        )


@dataclass(frozen=True)
class Window(Chosen):
    id: int
    chosen_at: datetime
    audited: Audited | None
    measured: Measured | None
    verdict: Verdict | None
    told: str | None
    judged_at: datetime | None


def write_window(cursor: Cursor, chosen: Chosen) -> Window:
    """Once per run and sink: asked again, the first choice stands."""
    cursor.execute(
        "INSERT INTO reconciliation_window (stream, sink, run, by_hand, epoch, topic_id, after_version, up_to_version, snapshot,"
        " starts, ends) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (stream, sink, run) DO NOTHING",
        [
            *(chosen.stream, chosen.sink, chosen.run, chosen.by_hand, chosen.epoch, chosen.topic_id),
            *(chosen.after_version, chosen.up_to_version, chosen.snapshot, Json(chosen.starts), Json(chosen.ends)),
        ],
    )
    (window,) = [one for one in windows_of_run(cursor, chosen.stream, chosen.run) if one.sink == chosen.sink]
    return window


def windows_of_run(cursor: Cursor, stream: str, run: str) -> list[Window]:
    """By the sink's name."""
    return _select(cursor, "WHERE stream = %s AND run = %s ORDER BY sink", stream, run)


def newest_closed(cursor: Cursor, stream: str, sink: str) -> Window | None:
    """Where the next window goes on. Windows asked for by hand move nothing."""
    where = "WHERE stream = %s AND sink = %s AND verdict <> 'reopened' AND NOT by_hand ORDER BY id DESC LIMIT 1"
    found = _select(cursor, where, stream, sink)
    return found[0] if found else None


def unsettled(cursor: Cursor, stream: str, sink: str) -> list[Window]:
    """Failed windows that no later one has shown to be mended."""
    return _select(
        cursor, "WHERE stream = %s AND sink = %s AND verdict = 'failed' AND settled_by IS NULL ORDER BY id", stream, sink
    )


def newest_passed(cursor: Cursor, stream: str, sink: str, before: int | None) -> Window | None:
    """Of those that the schedule chose, below a window's id."""
    where = "WHERE stream = %s AND sink = %s AND verdict = 'passed' AND NOT by_hand AND id < coalesce(%s, id + 1)"
    found = _select(cursor, f"{where} ORDER BY id DESC LIMIT 1", stream, sink, before)
    return found[0] if found else None


def not_judged(cursor: Cursor, stream: str, sink: str) -> list[Window]:
    return _select(cursor, "WHERE stream = %s AND sink = %s AND verdict = 'not judged' ORDER BY id", stream, sink)


def windows_of_day(cursor: Cursor, stream: str, day: str) -> list[Window]:
    """Chosen on that day, UTC; oldest first."""
    where = "WHERE stream = %s AND chosen_at >= %s::date AND chosen_at < %s::date + 1 ORDER BY id"
    return _select(cursor, where, stream, day, day)


def write_audited(cursor: Cursor, window: int, audited: Audited) -> None:
    cursor.execute("UPDATE reconciliation_window SET audited = %s WHERE id = %s", [audited.model_dump_json(), window])


def write_measured(cursor: Cursor, window: int, measured: Measured) -> None:
    cursor.execute("UPDATE reconciliation_window SET measured = %s WHERE id = %s", [measured.model_dump_json(), window])


def write_verdict(cursor: Cursor, window: int, verdict: Verdict, told: str) -> None:
    cursor.execute(
        "UPDATE reconciliation_window SET verdict = %s, told = %s, judged_at = now() WHERE id = %s", [verdict, told, window]
    )


def settle(cursor: Cursor, failed: int, by: int) -> None:
    cursor.execute("UPDATE reconciliation_window SET settled_by = %s WHERE id = %s", [by, failed])


def reopen(cursor: Cursor, window: int, why: str) -> None:
    cursor.execute("UPDATE reconciliation_window SET verdict = 'reopened', told = %s WHERE id = %s", [why, window])


def reopen_above(cursor: Cursor, stream: str, sink: str, version: int) -> None:
    """P7.2: the place was put back to a copy or a backup that ends with this version. Windows by hand are no one's ground."""
    cursor.execute(
        "UPDATE reconciliation_window SET verdict = 'reopened', told = %s WHERE stream = %s AND sink = %s AND up_to_version > %s"
        " AND verdict IS NOT NULL AND NOT by_hand",
        [f"The table went back: commits above {version} are gone, and others stand in their place.", stream, sink, version],
    )


def _select(cursor: Cursor, where: str, *values: object) -> list[Window]:
    cursor.execute(SQL("SELECT {} FROM reconciliation_window {}").format(SQL(COLUMNS), SQL(where)), values)
    return [_window(row) for row in cursor.fetchall()]


def _window(row: tuple[Any, ...]) -> Window:
    values = dict(zip(COLUMNS.split(", "), row, strict=True))
    for side in ("starts", "ends"):
        values[side] = {int(partition): offset for partition, offset in values[side].items()}
    for name, kind in (("audited", Audited.model_validate), ("measured", Measured.model_validate), ("verdict", Verdict)):
        values[name] = None if values[name] is None else kind(values[name])
    return Window(**values)
