"""Plans a warm-up (P6.3): which records make a lost state again, and in which batches. Pure.

It begins, in each partition, with the oldest recorded batch that reaches into the horizon, and ends at the lowest tidemark.
Recorded batches are put together up to the batch size of the file, never cut: what memory holds of a batch it holds of these, and
each that is finished is progress. Only between the lowest and the highest tidemark are they run one by one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from include.tidemarks.recorded import PastRange, RecordedBatch, Recording

Offsets = Mapping[int, int]


@dataclass(frozen=True)
class WarmUp:
    """`forgotten_ms`: up to when there may be events that are needed, but that Kafka, or the sink's log, no longer has."""

    starts: Offsets
    batches: tuple[RecordedBatch, ...]
    forgotten_ms: int | None


def plan_warm_up(
    recording: Recording, lowest: int, ends: Offsets, earliest: Offsets, horizon_ms: int, records_per_batch: int
) -> WarmUp:
    """`lowest`: the index of the batch after which the lowest sink stands; `ends`: where it begins to read."""
    below = recording.batches[: lowest + 1]
    reaches_to = below[-1].clock.watermark_ms - horizon_ms
    wanted = {number: _oldest_needed(below, number, end, reaches_to) for number, end in ends.items()}
    starts = {number: min(max(start, earliest.get(number, 0)), ends[number]) for number, start in wanted.items()}
    batches = tuple(_put_together(below, starts, ends, records_per_batch))
    return WarmUp(starts, batches, _forgotten(recording, below, starts, reaches_to))


def _oldest_needed(below: tuple[RecordedBatch, ...], partition: int, end: int, reaches_to: int) -> int:
    """A batch is needed for the sake of its newest record: nobody knows where in it that lies."""
    needed = (one.starts.get(partition, 0) for one in below if one.clock.newest_ms.get(partition, reaches_to - 1) >= reaches_to)
    return min(needed, default=end)


def _put_together(below: tuple[RecordedBatch, ...], starts: Offsets, ends: Offsets, most: int) -> Iterator[RecordedBatch]:
    """Each ends with the last batch that is in it, and has its clock."""
    ranges = [_past(index, one, starts) for index, one in enumerate(below)]
    begin, past = starts, list[PastRange]()
    for one, mine, following in zip(below[:-1], ranges[:-1], ranges[1:], strict=True):
        past += mine
        if past and following and _records([*past, *following]) > most:
            end = _between(one.ends, starts, ends)
            yield RecordedBatch(begin, end, one.clock, tuple(past))
            begin, past = end, []
    yield RecordedBatch(begin, ends, below[-1].clock, (*past, *ranges[-1]))


def _past(index: int, one: RecordedBatch, starts: Offsets) -> list[PastRange]:
    return [
        PastRange(index, number, start, end, one.clock.late_ms)
        for number, end in sorted(one.ends.items())
        if (start := max(one.starts.get(number, 0), starts.get(number, 0))) < end
    ]


def _records(past: list[PastRange]) -> int:
    return sum(one.end - one.start for one in past)


def _between(offsets: Offsets, lowest: Offsets, highest: Offsets) -> Offsets:
    return {number: min(max(offsets.get(number, 0), lowest[number]), highest[number]) for number in lowest}


def _forgotten(recording: Recording, below: tuple[RecordedBatch, ...], starts: Offsets, reaches_to: int) -> int | None:
    missing = [
        newest
        for one in below
        for number, newest in one.clock.newest_ms.items()
        if newest >= reaches_to and one.starts.get(number, 0) < starts.get(number, 0)
    ]
    oldest = recording.batches[0].clock.highest_ms
    if not recording.is_whole and (oldest is None or oldest >= reaches_to):
        missing.append(oldest if oldest is not None else reaches_to)
    return max(missing, default=None)
