"""What a driver into Kafka had committed and not told, from the marks that it left."""

import pytest

from include.tidemarks.kafka_records import KEPT_COMMITS, LogRecord, Mark
from include.tidemarks.kafka_untold import untold
from include.tidemarks.note import EventClock, Kind, LedgerLine, Note, Tidemark
from include.tidemarks.sink_state import TidemarkBroken

TOLD = Tidemark(generation=3, batch=7, offsets={0: 10, 1: 10, 2: 10}, topic_id="t", epoch=1)
CLOCK = EventClock(watermark_ms=5, late_ms=4)
BEFORE = TOLD.model_copy(update={"batch": 6, "offsets": {0: 5, 1: 5, 2: 5}})


def mark(partition: int, end: int, *, batch: int = 8, builds_on: Tidemark | None = TOLD, epoch: int = 1) -> Mark:
    start = builds_on.next_offset(partition) if builds_on else 0
    line = LedgerLine(partition=partition, start=start, end=end, read=end - start, delivered=end - start)
    moved = TOLD.model_copy(
        update={"batch": batch, "offsets": {0: 20, 1: 20, 2: 20}, "epoch": epoch, "beside": ("out",), "clock": CLOCK}
    )
    note = Note(
        stream="s", sink="out", kind=Kind.BATCH, generation=3, owner="o", deployment="d", spec_hash="h", looked=4, tidemark=moved,
        builds_on=builds_on, made_by="h", quarantine=(3, 2), ledger=(line,),
    )  # fmt: skip
    return Mark(note, line)


def test_marks_that_are_told_leave_nothing_to_tell() -> None:
    assert untold([], None) is None
    assert untold([mark(number, 10, batch=7, builds_on=BEFORE) for number in range(3)], TOLD) is None


def test_all_slots_were_through() -> None:
    note = untold([mark(2, 20), mark(0, 20), mark(1, 20)], TOLD)
    assert note is not None
    assert note.tidemark is not None
    assert (note.tidemark.batch, note.tidemark.offsets, note.tidemark.beside) == (8, {0: 20, 1: 20, 2: 20}, ("out",))
    assert note.tidemark.clock == CLOCK
    assert [line.partition for line in note.ledger] == [0, 1, 2]
    assert (note.builds_on, note.made_by, note.quarantine) == (TOLD, "h", (3, 2))


def test_only_some_slots_were_through() -> None:
    """The tidemark is raised by what is committed, and by nothing else."""
    note = untold([mark(0, 10, batch=7, builds_on=BEFORE), mark(1, 20), mark(2, 10, batch=7, builds_on=BEFORE)], TOLD)
    assert note is not None
    assert note.tidemark is not None
    assert note.tidemark.offsets == {0: 10, 1: 20, 2: 10}
    assert [(line.partition, line.start, line.end) for line in note.ledger] == [(1, 10, 20)]


def test_a_topic_made_anew_counts_before_any_offset() -> None:
    """The marks of the old one stand higher, but in an epoch that is over."""
    anew = TOLD.model_copy(update={"epoch": 2, "offsets": {}})
    assert untold([mark(0, 500)], anew) is None
    note = untold([mark(0, 3, builds_on=anew, epoch=2)], anew)
    assert note is not None
    assert note.tidemark is not None
    assert note.tidemark.offsets == {0: 3}


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        ([mark(0, 20)], None),
        ([mark(0, 20, builds_on=BEFORE)], TOLD),
        ([mark(0, 20), mark(1, 20, builds_on=BEFORE)], TOLD),
    ],
    ids=["the log is gone", "a commit of the log is gone", "one of two builds on something else"],
)
def test_marks_above_a_hole_in_the_log_are_refused(marks: list[Mark], told: Tidemark | None) -> None:
    with pytest.raises(TidemarkBroken, match=r"Marks of generation 3 of s\.out build on a tidemark that its log has not"):
        untold(marks, told)


def test_a_commit_replaces_the_one_that_is_a_whole_round_older() -> None:
    """Keys of the log are numbers of a ring: its newest fifty thousand commits survive compaction, and no more."""
    keys = [LogRecord(version=version, note="").key for version in range(KEPT_COMMITS)]
    assert len(set(keys)) == KEPT_COMMITS
    assert LogRecord(version=KEPT_COMMITS + 7, note="").key == keys[7]


def test_what_a_log_says_comes_back_as_it_was_written() -> None:
    told = LogRecord(
        version=3, note="{}", records=7, slots=2, marks=3, output_id="i", output_ends={0: 5, 10: 7}, rejects_ends={0: 1}
    )
    assert LogRecord.model_validate_json(told.model_dump_json()) == told
