"""From which records a lost state is made again, and what is known of them."""

from include.start_plan.warm_up import plan_warm_up
from include.tidemarks.note import EventClock
from include.tidemarks.recorded import RecordedBatch, Recording


def batch(number: int, sizes: dict[int, int], before: dict[int, int]) -> RecordedBatch:
    """Its events lie in minute `number`, the watermark one minute before."""
    newest = {partition: number * 60_000 for partition, size in sizes.items() if size}
    clock = EventClock(watermark_ms=(number - 1) * 60_000, late_ms=number - 2, highest_ms=number * 60_000, newest_ms=newest)
    return RecordedBatch(before, {partition: before[partition] + size for partition, size in sizes.items()}, clock)


def recorded(*sizes: dict[int, int]) -> Recording:
    batches: list[RecordedBatch] = []
    for number, each in enumerate(sizes):
        batches.append(batch(number, each, dict(batches[-1].ends) if batches else dict.fromkeys(each, 0)))
    return Recording(1, tuple(batches))


RECORDING = recorded({0: 10, 1: 10}, {0: 0, 1: 0}, {0: 10, 1: 0}, {0: 30, 1: 10}, {0: 5, 1: 5})
ALL = 100 * 60_000  # a horizon that reaches over everything


def test_recorded_batches_are_put_together_and_each_range_knows_its_own() -> None:
    made = plan_warm_up(RECORDING, 3, RECORDING.batches[3].ends, {0: 0, 1: 0}, ALL).batch
    assert (dict(made.starts), dict(made.ends)) == ({0: 0, 1: 0}, {0: 50, 1: 20})
    assert made.clock == RECORDING.batches[3].clock
    assert [(one.batch, one.partition, one.start, one.end, one.late_ms) for one in made.past] == [
        (0, 0, 0, 10, -2),
        (0, 1, 0, 10, -2),
        (2, 0, 10, 20, 0),
        (3, 0, 20, 50, 1),
        (3, 1, 10, 20, 1),
    ]


def test_each_partition_begins_with_the_oldest_batch_that_reaches_into_the_horizon() -> None:
    made = plan_warm_up(RECORDING, 4, RECORDING.batches[4].ends, {0: 0, 1: 0}, 60_000)  # from minute 2 on
    assert (dict(made.batch.starts), made.forgotten_ms) == ({0: 10, 1: 10}, None)
    assert [(one.batch, one.partition, one.start) for one in made.batch.past][:2] == [(2, 0, 10), (3, 0, 20)]


def test_a_partition_that_was_added_and_records_that_are_lost_end_it_where_the_start_begins() -> None:
    made = plan_warm_up(RECORDING, 4, {0: 60, 1: 25, 2: 0}, {0: 60, 1: 0, 2: 0}, ALL)
    assert dict(made.batch.ends) == {0: 60, 1: 25, 2: 0}
    assert made.batch.starts[0] == 60
    assert made.forgotten_ms == 4 * 60_000
