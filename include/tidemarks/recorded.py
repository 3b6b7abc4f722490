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
    is_first: bool = False  # of the stream in this epoch
    generation: int = 0  # that made it; 0 where only its end is known

    def ends_at(self, ends: Offsets, watermark_ms: int) -> bool:
        return same_offsets(self.ends, ends) and self.clock.watermark_ms == watermark_ms


def same_offsets(one: Offsets, other: Offsets) -> bool:
    """A partition that is not spoken of is at 0: it was added later (P2)."""
    return all(one.get(number, 0) == other.get(number, 0) for number in {*one, *other})


@dataclass(frozen=True)
class Recording:
    """`batches` oldest first. Without `is_whole` there were earlier ones: the sink's log is cleaned up, or it was added later."""

    epoch: int = 0
    batches: tuple[RecordedBatch, ...] = ()
    is_whole: bool = True

    def preceded_by(self, other: "Recording") -> "Recording":
        """With the batches that only the log of another sink has, which was there before."""
        if not self.batches:
            return other if other.batches else self
        if self.is_whole or not other.batches:
            return self
        first = self.batches[0]
        known = (index for index, one in enumerate(other.batches) if one.ends_at(first.ends, first.clock.watermark_ms))
        index = next(known, len(other.batches) if same_offsets(other.batches[-1].ends, first.starts) else None)
        if index is None:
            return self
        return Recording(self.epoch, (*other.batches[:index], *self.batches), other.is_whole)


def read_recording(place: Place, stream: str, sink: str, epoch: int, back_to_ms: int) -> Recording:
    """As far back as events that are not older than `back_to_ms` may lie."""
    found: list[RecordedBatch] = []
    try:
        for batch in _newest_first(place, stream, sink, epoch):
            found.append(batch)
            highest = batch.clock.highest_ms
            if highest is not None and highest < back_to_ms:
                return Recording(epoch, tuple(reversed(found)))
    except LogUnreadable:  # cleaned up long ago
        return Recording(epoch, tuple(reversed(found)), is_whole=False)
    return Recording(epoch, tuple(reversed(found)), is_whole=bool(found) and found[-1].is_first)


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
    starts = {number: before.get(number, 0) for number in mark.offsets}
    is_first = all(start <= mark.began.get(number, 0) for number, start in starts.items())
    return RecordedBatch(starts, dict(mark.offsets), clock, is_first=is_first, generation=mark.generation)


def adopted_clock(mark: Tidemark | None, epoch: int, forgotten_ms: int | None) -> EventClock:
    """An adoption repeats how far event time was, but is no batch; in another epoch it begins anew."""
    if mark is None or mark.clock is None or mark.epoch != epoch:
        return EventClock(watermark_ms=0, late_ms=0, forgotten_ms=forgotten_ms)
    return mark.clock.model_copy(update={"newest_ms": {}, "results": None, "forgotten_ms": forgotten_ms})
