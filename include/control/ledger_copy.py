"""The control database's copy of the sinks' ledgers, filled from their own logs (P3.8); read again by the audit."""

from collections.abc import Iterator

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import execute_values
from pydantic import BaseModel, ConfigDict

from include.contract.places import Place
from include.control.database import ControlDatabase
from include.control.windows import reopen_above
from include.tidemarks.logs import looking_at
from include.tidemarks.note import LedgerLine, Note
from include.tidemarks.sink_state import CopiedBatch, first_to_copy, read_ledger

COPIED_AT_ONCE = 2_000  # commits; a copy that begins anew catches up in steps, each a short transaction
COUNTS = ("read", "delivered", "quarantined", "rejected", "filtered", "superseded", "duplicates", "late", "lost", "outputs")


class CopiedLine(BaseModel):
    model_config = ConfigDict(frozen=True)

    line: LedgerLine
    spec_hash: str


def catch_up(control: ControlDatabase, stream: str, sink: str, place: Place) -> bool:
    """Copies what the sink's log has and the copy has not, in steps: False when nothing was left to copy. The log is read
    outside of the transaction, which must be short."""
    with control.transaction() as cursor:
        copied = _copied_version(cursor, stream, sink)
    with looking_at(place) as log:
        began = first_to_copy(log, copied, _batches(control, stream, sink))
        notes, up_to = read_ledger(log, stream, sink, began, COPIED_AT_ONCE)
    if up_to == copied:
        return False
    with control.transaction() as cursor:
        if began < copied:
            _forget_above(cursor, stream, sink, began)
            reopen_above(cursor, stream, sink, began)
        _copy(cursor, stream, sink, notes, up_to)
    return True


def _copied_version(cursor: Cursor, stream: str, sink: str) -> int:
    cursor.execute("SELECT version FROM ledger_copied WHERE stream = %s AND sink = %s", [stream, sink])
    return int(next(iter(cursor.fetchone() or ()), -1))


def _batches(control: ControlDatabase, stream: str, sink: str) -> Iterator[CopiedBatch]:
    """Newest first: the newest alone, then as many as are asked for."""
    at_once, above = 1, CopiedBatch(0, 1 << 62, 0)
    while True:
        with control.transaction() as cursor:
            cursor.execute(
                "SELECT DISTINCT generation, batch, version FROM ledger WHERE stream = %s AND sink = %s"
                " AND (generation, batch) < (%s, %s) ORDER BY generation DESC, batch DESC LIMIT %s",
                [stream, sink, above.generation, above.batch, at_once],
            )
            found = [CopiedBatch(version, generation, batch) for generation, batch, version in cursor.fetchall()]
        yield from found
        if not found:
            return
        at_once, above = COPIED_AT_ONCE, found[-1]


def _forget_above(cursor: Cursor, stream: str, sink: str, version: int) -> None:
    """The table was put back from a backup: its log has other commits above that version by now."""
    cursor.execute("DELETE FROM ledger WHERE stream = %s AND sink = %s AND version > %s", [stream, sink, version])
    cursor.execute("DELETE FROM ledger_copied WHERE stream = %s AND sink = %s", [stream, sink])


def _copy(cursor: Cursor, stream: str, sink: str, notes: list[tuple[int, Note]], up_to: int) -> None:
    """Idempotent: two may do it at once."""
    rows = [
        [
            *(stream, sink, note.generation, note.tidemark.batch, note.tidemark.epoch, line.partition, line.start, line.end),
            *(getattr(line, name) for name in COUNTS),
            *(note.spec_hash, version),
        ]
        for version, note in notes
        if note.tidemark is not None
        for line in note.ledger
    ]
    execute_values(
        cursor,
        'INSERT INTO ledger (stream, sink, generation, batch, epoch, partition, start, "end", read, delivered, quarantined,'
        " rejected, filtered, superseded, duplicates, late, lost, outputs, spec_hash, version) VALUES %s ON CONFLICT DO NOTHING",
        rows,
    )
    cursor.execute(
        "INSERT INTO ledger_copied AS there (stream, sink, version) VALUES (%s, %s, %s)"
        " ON CONFLICT (stream, sink) DO UPDATE SET version = greatest(there.version, excluded.version)",
        [stream, sink, up_to],
    )


def read_copied(cursor: Cursor, stream: str, sink: str, after_version: int, up_to_version: int) -> dict[int, list[CopiedLine]]:
    """By the version of the table."""
    cursor.execute(
        'SELECT version, spec_hash, partition, start, "end", read, delivered, quarantined, rejected, filtered, superseded,'
        " duplicates, late, lost, outputs FROM ledger WHERE stream = %s AND sink = %s AND version > %s AND version <= %s",
        [stream, sink, after_version, up_to_version],
    )
    found: dict[int, list[CopiedLine]] = {}
    for version, spec_hash, partition, start, end, *counts in cursor.fetchall():
        line = LedgerLine(partition=partition, start=start, end=end, **dict(zip(COUNTS, counts, strict=True)))
        found.setdefault(version, []).append(CopiedLine(line=line, spec_hash=spec_hash))
    return found


def versions_of(
    cursor: Cursor, stream: str, sink: str, epoch: int, partition: int, start: int, end: int
) -> tuple[int, int] | None:
    """The first and the last version whose lines hold these offsets; None if the ends of the range are in none."""
    cursor.execute(
        "SELECT min(version), max(version) FROM ledger WHERE stream = %s AND sink = %s AND epoch = %s AND partition = %s"
        ' AND start < %s AND "end" > %s HAVING min(start) <= %s AND max("end") >= %s',
        [stream, sink, epoch, partition, end, start, start, end],
    )
    return cursor.fetchone()
