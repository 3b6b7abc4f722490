"""The audit of a window's ledger, as a table: what each kind of damage is called."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from include.control.ledger_copy import CopiedLine
from include.control.windows import Window
from include.reconciliation.audit import audit
from include.tidemarks.commit import Commit
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark

HASH = "made by this"
WINDOW = Window(
    *("s", "lake", "run", False, 1, "id", 0, 9, 9, {0: 0, 1: 5}, {0: 20, 1: 15}),
    *(1, datetime.now(UTC), None, None, None, None, None),
)


def batch(version: int, *lines: LedgerLine, offsets: dict[int, int], rows: int | None = None, spec_hash: str = HASH) -> Commit:
    mark = Tidemark(generation=1, batch=version, offsets=offsets, topic_id="id", epoch=1)
    note = Note(
        stream="s", sink="lake", kind=Kind.BATCH, generation=1, owner="o", deployment="d", spec_hash=spec_hash, looked=version - 1,
        tidemark=mark, made_by=spec_hash, ledger=lines,
    )  # fmt: skip
    written = sum(line.delivered for line in lines) if rows is None else rows
    return Commit(version, "WRITE", {}, note.to_json(), {}, 0, written, None)


def line(partition: int, start: int, end: int, **counts: int) -> LedgerLine:
    return LedgerLine(partition=partition, start=start, end=end, **(counts or {"read": end - start, "delivered": end - start}))


FIRST = batch(1, line(0, 0, 10), line(1, 5, 15), offsets={0: 10, 1: 15})
SECOND = batch(2, line(0, 10, 20), offsets={0: 20, 1: 15})
STRANGER = Commit(2, "WRITE", {}, None, {}, 0, 3, None)


@dataclass(frozen=True)
class Case:
    commits: list[Commit]
    says: str


CASES = {
    "whole": Case([FIRST, SECOND], ""),
    "a gap": Case([FIRST, batch(2, line(0, 12, 20), offsets={0: 20, 1: 15})], "partition 0: the ledger line of version 2 leaves a gap, offsets 10 to 12"),
    "an overlap": Case([FIRST, batch(2, line(0, 8, 20), offsets={0: 20, 1: 15})], "partition 0: the ledger line of version 2 overlaps, offsets 8 to 10"),
    "a tidemark without lines": Case([FIRST, batch(2, offsets={0: 20, 1: 15})], "partition 0: the tidemark of version 2 leaves a gap, offsets 10 to 20"),
    "a window that ends too early": Case([FIRST], "partition 0: the window's end leaves a gap, offsets 10 to 20"),
    "an equation that is not true": Case([FIRST, batch(2, line(0, 10, 20, read=10, delivered=8, filtered=1), offsets={0: 20, 1: 15})], "books 10 records read for offsets 10 to 20, but 9 accounted for"),
    "rows that are not booked": Case([FIRST, batch(2, line(0, 10, 20), offsets={0: 20, 1: 15}, rows=11)], "version 2 books 10 delivered, but Delta's log counts 11 rows"),
    "a stranger's rows": Case([FIRST, STRANGER, replace(SECOND, version=3)], "somebody's WRITE (version 2) added 3 rows"),
    "a stranger's removal": Case([FIRST, replace(STRANGER, rows_added=0, files_removed=2), replace(SECOND, version=3)], "removed 2 files with their rows"),
    "compaction": Case([FIRST, replace(STRANGER, operation="OPTIMIZE", rows_added=0), replace(SECOND, version=3)], ""),
    "a file without statistics": Case([FIRST, replace(SECOND, rows_added=None)], "Delta's log counts None rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_audit_of(case: Case) -> None:
    audited = audit(WINDOW, case.commits, _copied(case.commits))
    if case.says:
        assert [finding for finding in audited.findings if case.says in finding], audited.findings
    else:
        assert audited.findings == ()


def test_a_copy_that_differs_is_told() -> None:
    copied = _copied([FIRST, SECOND])
    copied[2] = [CopiedLine(line=line(0, 10, 20, read=11, delivered=11), spec_hash=HASH)]
    (finding,) = audit(WINDOW, [FIRST, SECOND], copied).findings
    assert finding == "version 2: the control database's copy is not what the table says (partitions [0])"


def test_what_was_lost_is_booked_beside_and_not_counted_again() -> None:
    lost = batch(2, line(0, 10, 14, lost=4), line(0, 14, 20), offsets={0: 20, 1: 15})
    audited = audit(WINDOW, [FIRST, lost], _copied([FIRST, lost]))
    assert (audited.findings, audited.booked[0].lost, audited.booked[0].read) == ((), 4, 16)
    assert [(one.partition, one.start, one.end) for one in audited.segments] == [(0, 0, 10), (0, 14, 20), (1, 5, 15)]


def test_segments_are_merged_as_long_as_one_spec_made_the_rows() -> None:
    changed = batch(2, line(0, 10, 20), offsets={0: 20, 1: 15}, spec_hash="another")
    audited = audit(WINDOW, [FIRST, changed], _copied([FIRST, changed]))
    assert [(one.start, one.end, one.spec_hash) for one in audited.segments if one.partition == 0] == [
        (0, 10, HASH),
        (10, 20, "another"),
    ]
    merged = audit(WINDOW, [FIRST, SECOND], _copied([FIRST, SECOND])).segments
    assert [(one.start, one.end) for one in merged if one.partition == 0] == [(0, 20)]


def _copied(commits: list[Commit]) -> dict[int, list[CopiedLine]]:
    notes = {commit.version: commit.note for commit in commits if commit.note}
    return {version: [CopiedLine(line=one, spec_hash=note.spec_hash) for one in note.ledger] for version, note in notes.items()}
