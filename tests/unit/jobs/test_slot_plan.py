"""A slot is a function of the source partition alone; what it answers crosses from an executor to the driver as it was."""

import pytest

from include.tidemarks.kafka_records import LOG_PARTITION, Mark
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark
from jobs.kafka.slot_plan import Outcome, SlotPlan, SlotResult, Target, booked

TARGET = Target("localhost:9092", "s", "out", "orders", "out", 4, "key", "lz4", 1_000_000, 60_000, 30)
MARK = Tidemark(generation=3, batch=8, offsets={0: 20}, topic_id="t", epoch=1)
NOTE = Note(
    stream="s", sink="out", kind=Kind.BATCH, generation=3, owner="o", deployment="d", spec_hash="h", looked=4, tidemark=MARK
)


def line(partition: int, start: int = 0, end: int = 10) -> LedgerLine:
    return LedgerLine(partition=partition, start=start, end=end, read=end - start, delivered=end - start)


def plan(partitions: int, slots: int, marks: int) -> SlotPlan:
    lines = {number: line(number) for number in range(partitions)}
    return SlotPlan(TARGET, slots, marks, NOTE, lines, 0, {}, 100)


@pytest.mark.parametrize(("partitions", "slots", "marks"), [(6, 2, 6), (6, 4, 6), (9, 2, 3), (64, 7, 12), (1, 1, 1)])
def test_every_partition_has_one_slot_and_slots_share_no_partition_of_marks(partitions: int, slots: int, marks: int) -> None:
    """Two producers in one partition of marks would hide each other's marks."""
    asked = plan(partitions, slots, marks)
    lines = [number for slot in range(slots) for number in asked.lines_of(slot)]
    assert sorted(lines) == list(range(partitions))
    places = [place for slot in range(slots) for place in asked.marks_partitions_of(slot)]
    assert len(places) == len(set(places))
    assert LOG_PARTITION not in places
    assert set(places) <= set(range(1, marks + 1))


def test_a_partition_keeps_its_marks_whatever_the_slots() -> None:
    for partition in range(20):
        assert len({plan(20, slots, 5).marks_partition_of(partition) for slots in range(1, 6)}) == 1


def test_only_an_attempt_of_the_very_same_batch_is_done_before() -> None:
    asked = plan(1, 1, 1)
    same = Mark(NOTE, line(0))
    assert asked.is_done(same, line(0))
    assert not asked.is_done(None, line(0))
    assert not asked.is_done(Mark(NOTE, line(0, 0, 9)), line(0))
    assert not asked.is_done(Mark(NOTE.model_copy(update={"owner": "another"}), line(0)), line(0))
    other_batch = NOTE.model_copy(update={"tidemark": MARK.model_copy(update={"batch": 7})})
    assert not asked.is_done(Mark(other_batch, line(0)), line(0))


def test_an_answer_comes_back_as_it_was_given() -> None:
    for outcome in Outcome:
        told = SlotResult(1, outcome, (line(1), line(3)), {2: 40, 4: 50}, {(1, 5): "too large", (3, 6): "ä"}, "why", 9)
        assert SlotResult.from_json(told.to_json()) == told


def test_the_ledger_of_all_slots_is_by_partition() -> None:
    results = [SlotResult(0, Outcome.COMMITTED, (line(0), line(2))), SlotResult(1, Outcome.DONE_BEFORE, (line(1),))]
    assert [one.partition for one in booked(results)] == [0, 1, 2]
