"""Which windows of event time a reconciliation window is judged by, and what a table has of them at one snapshot (P7.1)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.stream_spec import WINDOW_START, Aggregate
from jobs.known_batches import KnownBatch, KnownBatches, read_known
from jobs.measuring import Sides

NOTHING_CLOSED = 0


@dataclass(frozen=True)
class Reach:
    """Windows that begin after `after_ms`: all that hold a record of the reconciliation window, or that it may have closed."""

    after_ms: int
    within: timedelta  # how long copies are remembered

    @classmethod
    def of(cls, sides: Sides, aggregate: Aggregate, mine: DataFrame) -> "Reach":
        oldest = (mine.agg(F.min(F.unix_millis(F.timestamp_micros("_at")))).first() or [None])[0]
        batches = sides.known.batches if sides.known else ()
        closed = batches[0].clock.late_ms if batches else NOTHING_CLOSED
        before = min(closed, oldest) if oldest is not None else closed
        dedupe = sides.stream.spec.dedupe
        return cls(before - _ms(aggregate.window) - 1, dedupe.within if dedupe else timedelta(0))

    def read(self, sides: Sides, up_to: int) -> KnownBatches:
        """Back to where neither a window's own events lie, nor what the state remembered when the first of them came."""
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


class DeltaResults:
    def __init__(self, sides: Sides, aggregate: Aggregate) -> None:
        self._sides = sides
        self._columns = aggregate.columns
        self.closed_ms = NOTHING_CLOSED

    def known(self, reach: Reach) -> KnownBatches:
        known = reach.read(self._sides, self._sides.window.snapshot)
        self.closed_ms = known.batches[-1].clock.watermark_ms if known.batches else NOTHING_CLOSED
        return known

    def rows(self, after: datetime) -> DataFrame:
        """Those of another epoch were made of another topic."""
        is_ours = F.coalesce(F.col("_topic_epoch") == self._sides.window.epoch, F.lit(True))
        return self._sides.table().where(is_ours & (F.col(WINDOW_START) > F.lit(after))).select(*self._columns)


def _ms(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
