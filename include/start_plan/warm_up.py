"""Plans a warm-up (P6.3): which records make a lost state again. Pure.

It begins, in each partition, with the oldest recorded batch that reaches into the horizon, and ends at the lowest tidemark. The
recorded batches are put together into one, for each query that Spark starts reads the whole state anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from include.tidemarks.recorded import PastRange, RecordedBatch, Recording

Offsets = Mapping[int, int]


@dataclass(frozen=True)
class WarmUp:
    """`forgotten_ms`: up to when there may be events that are needed, but that Kafka, or the sink's log, no longer has."""

    batch: RecordedBatch
    forgotten_ms: int | None


def plan_warm_up(recording: Recording, lowest: int, ends: Offsets, earliest: Offsets, horizon_ms: int) -> WarmUp:
    """`lowest`: the index of the batch after which the lowest sink stands; `ends`: where it begins to read."""
    below = recording.batches[: lowest + 1]
    reaches_to = below[-1].clock.watermark_ms - horizon_ms
    wanted = {number: _oldest_needed(below, number, end, reaches_to) for number, end in ends.items()}
    starts = {number: min(max(start, earliest.get(number, 0)), ends[number]) for number, start in wanted.items()}
    return WarmUp(_put_together(below, starts, ends), _forgotten(recording, below, starts, reaches_to))


def _oldest_needed(below: tuple[RecordedBatch, ...], partition: int, end: int, reaches_to: int) -> int:
    """A batch is needed for the sake of its newest record: nobody knows where in it that lies."""
    needed = (one.starts.get(partition, 0) for one in below if one.clock.newest_ms.get(partition, reaches_to - 1) >= reaches_to)
    return min(needed, default=end)


def _put_together(batches: Sequence[RecordedBatch], starts: Offsets, ends: Offsets) -> RecordedBatch:
    """What recorded batches had from the starts on, as one, with the clock of the last of them."""
    past = [
        PastRange(index, number, start, end, one.clock.late_ms)
        for index, one in enumerate(batches)
        for number, end in sorted(one.ends.items())
        if (start := max(one.starts.get(number, 0), starts.get(number, 0))) < end
    ]
    return RecordedBatch(starts, ends, batches[-1].clock, tuple(past))


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
