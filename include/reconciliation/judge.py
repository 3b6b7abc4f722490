"""Judges a window that was audited and measured: passed, failed or not judged; and keeps what follows from that."""

from pathlib import Path

from psycopg2.extensions import cursor as Cursor

from include.contract.catalog import Stream
from include.contract.errors import TidemarkError
from include.control.database import ControlDatabase
from include.control.incidents import close_incidents, open_incident
from include.control.journal import write_journal
from include.control.window_contents import Audited, Measured
from include.control.windows import Verdict, Window, settle, unsettled, write_verdict
from include.reconciliation.expectations import frames
from include.reconciliation.validation import Failed, validate

BOOKS_DIFFER = "books differ"  # the class of the incident
ACTOR = "reconciliation"


class NotMeasured(TidemarkError):
    """A window cannot be judged before it was audited and measured."""


def judge_window(control: ControlDatabase, stream: Stream, window: Window, folder: Path) -> None:
    if window.audited is None or window.measured is None:
        raise NotMeasured(
            f"Window {window.id} of {window.stream}.{window.sink} was not audited and measured yet.",
            state="Nothing was judged.",
            next_step="Clear the task `audit_ledger` of this run: the steps after it follow.",
        )
    failed = validate(folder, window.id, frames(stream, window, window.audited, window.measured))
    verdict = _verdict(failed, window.measured)
    told = _tell(verdict, failed, window.audited, window.measured, window)
    with control.transaction() as cursor:
        write_verdict(cursor, window.id, verdict, told)
        _draw_conclusions(cursor, stream, window, verdict, told)


def _verdict(failed: list[Failed], measured: Measured) -> Verdict:
    if failed:
        return Verdict.FAILED
    return Verdict.NOT_JUDGED if measured.not_recounted else Verdict.PASSED


def _draw_conclusions(cursor: Cursor, stream: Stream, window: Window, verdict: Verdict, told: str) -> None:
    """A window that passes settles the failed ones that it holds; when none is left, the incident is closed."""
    write_journal(cursor, stream.name, "window judged", actor=ACTOR, window=window.id, sink=window.sink, verdict=str(verdict))
    if verdict is Verdict.FAILED:
        open_incident(
            cursor,
            stream.name,
            BOOKS_DIFFER,
            happened=f"Window {window.id} of sink {window.sink}: {told}",
            state="Nothing was changed; the stream goes on.",
            next_step=f"Read window {window.id}'s report. When it is mended, trigger reconcile_{stream.name} with these offsets.",
            evidence={"window": window.id, "sink": window.sink},
            actor=ACTOR,
        )
    if verdict is not Verdict.PASSED:
        return
    for one in unsettled(cursor, stream.name, window.sink):
        if one.id != window.id and window.holds(one):
            settle(cursor, one.id, window.id)
    if not any(unsettled(cursor, stream.name, sink) for sink in stream.spec.sinks):
        close_incidents(cursor, stream.name, [BOOKS_DIFFER], closed_by=ACTOR)


def _tell(verdict: Verdict, failed: list[Failed], audited: Audited, measured: Measured, window: Window) -> str:
    if verdict is Verdict.PASSED:
        records = sum(one.kafka_read for one in measured.counted.values())
        return f"{records:,} records in {window.offsets:,} offsets: Kafka and the sink agree."
    if verdict is Verdict.NOT_JUDGED:
        why = "; ".join(f"partition {number}: {why}" for number, why in sorted(measured.not_recounted.items()))
        return f"The ledger is whole, but Kafka cannot tell: {why}."
    sentences = [
        *(one.tell() for one in measured.differences),
        *audited.findings,
        *measured.findings,
        *(_failed(one) for one in failed),
    ]
    return "; ".join(sentences) + "."


def _failed(failed: Failed) -> str:
    """As what was expected, and the numbers that stand against it."""
    expected = failed.expected
    if expected.other is None:
        numbers = [f"{_place(row)}{expected.column} is {row[expected.column]:,}" for row in failed.rows]
    else:
        numbers = [
            f"{_place(row)}{expected.column} {_number(row[expected.column])}, {expected.other} {_number(row[expected.other])}"
            for row in failed.rows
        ]
    return f"not so that {expected.sentence} ({', '.join(numbers)})"


def _place(row: dict[str, object]) -> str:
    return f"partition {row['partition']}: " if "partition" in row else ""


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
