"""The batches of a stateful stream as a sink's log has them, for reconciliation: which batch had a record, and by which watermark
it judged late ones (P6.4). Reads only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from include.contract.places import Place
from include.control.window_contents import Segment
from include.control.windows import Window
from include.tidemarks.commit import LogUnreadable
from include.tidemarks.logs import looking_at
from include.tidemarks.note import EventClock, Kind, Note, Tidemark
from include.tidemarks.recorded import PastRange


@dataclass(frozen=True)
class KnownBatch:
    """`number`: the version of its commit, which is higher for each later batch."""

    number: int
    segments: tuple[Segment, ...]
    clock: EventClock
    is_first: bool = False  # of the stream in this epoch

    @property
    def newest_ms(self) -> int | None:
        """The newest event time that it brought."""
        return max(self.clock.newest_ms.values(), default=None)

    @property
    def past(self) -> Iterator[PastRange]:
        clock = self.clock
        return (
            PastRange(self.number, one.partition, one.start, one.end, clock.late_ms, clock.forgotten_ms) for one in self.segments
        )

    def ends_before(self, event_ms: int) -> bool:
        """Neither it nor any batch before it has events of that time."""
        return self.clock.highest_ms is not None and self.clock.highest_ms < event_ms


@dataclass(frozen=True)
class KnownBatches:
    """Oldest first. Without `is_whole` there were earlier ones that were asked for: the sink's log is cleaned up, or the sink was
    added later, and the state has records that it never got."""

    batches: tuple[KnownBatch, ...]
    is_whole: bool

    @property
    def spans(self) -> list[Segment]:
        """One for each partition: batches follow each other."""
        found: dict[int, Segment] = {}
        for one in (segment for batch in self.batches for segment in batch.segments):
            first = found.setdefault(one.partition, one)
            found[one.partition] = first.model_copy(update={"end": one.end})
        return list(found.values())

    @property
    def past(self) -> list[PastRange]:
        return [one for batch in self.batches for one in batch.past]

    @property
    def spec_hashes(self) -> set[str]:
        return {segment.spec_hash for batch in self.batches for segment in batch.segments}

    @property
    def closed_ms(self) -> int:
        """Windows that ended by then were given out as final."""
        return self.batches[-1].clock.watermark_ms if self.batches else 0

    @property
    def forgotten_ms(self) -> int | None:
        """Events up to there were given up: what is known of them is not what the state knew."""
        told = [one.clock.forgotten_ms for one in self.batches if one.clock.forgotten_ms is not None]
        return max(told, default=None)


def read_known(place: Place, window: Window, up_to: int, is_enough: Callable[[KnownBatch], bool]) -> KnownBatches:
    """From the commit `up_to` back to the first batch that is enough; that one is not among them."""
    found: list[KnownBatch] = []
    try:
        for batch in _newest_first(place, window, up_to):
            if is_enough(batch):
                return KnownBatches(tuple(reversed(found)), is_whole=True)
            found.append(batch)
    except LogUnreadable:  # cleaned up long ago
        return KnownBatches(tuple(reversed(found)), is_whole=False)
    return KnownBatches(tuple(reversed(found)), is_whole=not found or found[-1].is_first)


def batches_of(place: Place, window: Window) -> KnownBatches:
    return read_known(place, window, window.up_to_version, lambda batch: batch.number <= window.after_version)


def _newest_first(place: Place, window: Window, up_to: int) -> Iterator[KnownBatch]:
    with looking_at(place) as log:
        for commit in log.standing(up_to):
            note = commit.note
            if note is None or not note.is_of(window.stream, window.sink) or note.kind is not Kind.BATCH:
                continue
            if note.tidemark is None or note.tidemark.epoch != window.epoch or note.tidemark.clock is None:
                return  # before this epoch
            yield _known(commit.version, note, note.tidemark, note.tidemark.clock)


def _known(version: int, note: Note, mark: Tidemark, clock: EventClock) -> KnownBatch:
    before = note.builds_on.offsets if note.builds_on else {}
    spans = [(number, before.get(number, 0), end) for number, end in sorted(mark.offsets.items())]
    segments = [
        Segment(partition=number, start=start, end=end, spec_hash=note.spec_hash) for number, start, end in spans if start < end
    ]
    is_first = all(start <= mark.began.get(number, 0) for number, start, _ in spans)
    return KnownBatch(version, tuple(segments), clock, is_first)
