"""How far back reconciliation reads the records of a stateful stream, so that it knows what the state knew (P7.11)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.stream_spec import Aggregate, Dedupe
from jobs.known_batches import KnownBatch, KnownBatches, read_known
from jobs.measuring import Sides

NOTHING_CLOSED = 0


@dataclass(frozen=True)
class Reach:
    """Events after `after_ms` are judged; to judge them, also what the state remembered when the first of them came is read."""

    after_ms: int
    within: timedelta  # how long copies are remembered

    @classmethod
    def of_rows(cls, sides: Sides, dedupe: Dedupe) -> "Reach":
        """All that may be a copy of a record of the reconciliation window."""
        return cls(_first_late(sides) - _ms(dedupe.within), dedupe.within)

    @classmethod
    def of_windows(cls, sides: Sides, aggregate: Aggregate, mine: DataFrame) -> "Reach":
        """All windows of event time that hold a record of the reconciliation window, or that it may have closed."""
        oldest = (mine.agg(F.min(F.unix_millis(F.timestamp_micros("_at")))).first() or [None])[0]
        closed = _first_late(sides)
        before = min(closed, oldest) if oldest is not None else closed
        dedupe = sides.stream.spec.dedupe
        return cls(before - _ms(aggregate.window) - 1, dedupe.within if dedupe else timedelta(0))

    def read(self, sides: Sides, up_to: int) -> KnownBatches:
        remembered_ms = self.after_ms

        def is_enough(batch: KnownBatch) -> bool:
            nonlocal remembered_ms
            if self._has_events(batch):
                remembered_ms = min(self.after_ms, batch.clock.late_ms - _ms(self.within))
            return batch.ends_before(remembered_ms)

        return read_known(sides.place, sides.window, up_to, is_enough)

    def certain_from(self, known: KnownBatches) -> int:
        """From this batch on it is known what the state remembered."""
        return next((one.number for one in known.batches if self._has_events(one)), 0)

    def after(self, known: KnownBatches) -> datetime:
        """What was forgotten is not judged either."""
        latest = max(self.after_ms, known.forgotten_ms if known.forgotten_ms is not None else self.after_ms)
        return datetime.fromtimestamp(latest / 1000, UTC)

    def _has_events(self, batch: KnownBatch) -> bool:
        return batch.newest_ms is not None and batch.newest_ms >= self.after_ms


def _first_late(sides: Sides) -> int:
    """By which the first batch of the reconciliation window judged late records."""
    batches = sides.known.batches if sides.known else ()
    return batches[0].clock.late_ms if batches else NOTHING_CLOSED


def _ms(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
