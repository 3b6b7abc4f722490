"""The batches of a stateful stream as a sink's log has recorded them: by these alone a lost state is made again (P6.2, P6.3)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from include.contract.places import Place
from include.tidemarks.commit import LogUnreadable
from include.tidemarks.logs import looking_at
from include.tidemarks.note import EventClock, Kind, Note, Tidemark

Offsets = Mapping[int, int]


@dataclass(frozen=True)
class PastRange:
    """[start, end) of a partition, as one batch had it: what is at or before `late_ms` was late. `batch`: higher for each later
    one."""

    batch: int
    partition: int
    start: int
    end: int
    late_ms: int
    forgotten_ms: int | None = None


@dataclass(frozen=True)
class RecordedBatch:
    """[starts, ends) per partition, and its clock. `past`: of a warm-up, the batches that it makes again as one."""

    starts: Offsets
    ends: Offsets
    clock: EventClock
    past: tuple[PastRange, ...] = ()

    def ends_at(self, ends: Offsets, watermark_ms: int) -> bool:
        """A partition that is not spoken of is at 0: it was added later (P2)."""
        partitions = {*self.ends, *ends}
        is_same = all(self.ends.get(number, 0) == ends.get(number, 0) for number in partitions)
        return is_same and self.clock.watermark_ms == watermark_ms


@dataclass(frozen=True)
class Recording:
    """`batches` oldest first. Without `is_whole` there were earlier ones, which nobody can read any more."""

    epoch: int = 0
    batches: tuple[RecordedBatch, ...] = ()
    is_whole: bool = True


def read_recording(place: Place, stream: str, sink: str, epoch: int, back_to_ms: int) -> Recording:
    """As far back as events that are not older than `back_to_ms` may lie."""
    found: list[RecordedBatch] = []
    try:
        for batch in _newest_first(place, stream, sink, epoch):
            found.append(batch)
            highest = batch.clock.highest_ms
            if highest is not None and highest < back_to_ms:
                break
    except LogUnreadable:  # cleaned up long ago
        return Recording(epoch, tuple(reversed(found)), is_whole=False)
    return Recording(epoch, tuple(reversed(found)))


def _newest_first(place: Place, stream: str, sink: str, epoch: int) -> Iterator[RecordedBatch]:
    with looking_at(place) as log:
        newest = log.newest_version()
        for commit in log.standing(newest) if newest is not None else ():
            note = commit.note
            if note is None or not note.is_of(stream, sink) or note.kind is not Kind.BATCH:
                continue
            if note.tidemark is None or note.tidemark.epoch != epoch or note.tidemark.clock is None:
                return  # before this epoch, or before the stream had a state
            yield _as_recorded(note, note.tidemark, note.tidemark.clock)


def _as_recorded(note: Note, mark: Tidemark, clock: EventClock) -> RecordedBatch:
    before = note.builds_on.offsets if note.builds_on else {}
    return RecordedBatch({number: before.get(number, 0) for number in mark.offsets}, dict(mark.offsets), clock)


def adopted_clock(mark: Tidemark | None, epoch: int, forgotten_ms: int | None) -> EventClock:
    """An adoption repeats how far event time was, but is no batch; in another epoch it begins anew."""
    if mark is None or mark.clock is None or mark.epoch != epoch:
        return EventClock(watermark_ms=0, late_ms=0, forgotten_ms=forgotten_ms)
    return mark.clock.model_copy(update={"newest_ms": {}, "results": None, "forgotten_ms": forgotten_ms})
