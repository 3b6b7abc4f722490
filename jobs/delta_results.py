"""Results of windows of event time in a Delta table, at the one version at which a reconciliation window is judged (P7.1)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from pyspark.sql import functions as F

from include.contract.stream_spec import WINDOW_START, Aggregate
from jobs.known_batches import KnownBatches
from jobs.lost_files import told_if_lost
from jobs.measuring import Sides
from jobs.reach import Reach
from jobs.result_comparison import Results, compare_results


class DeltaResults:
    def __init__(self, sides: Sides, aggregate: Aggregate) -> None:
        self._sides = sides
        self._aggregate = aggregate

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        yield

    def known(self, reach: Reach) -> KnownBatches:
        return reach.read(self._sides, self._sides.window.snapshot)

    def compare(self, results: Results, after: datetime) -> list[str]:
        """Rows of another epoch were made of another topic."""
        is_ours = F.coalesce(F.col("_topic_epoch") == self._sides.window.epoch, F.lit(True))
        rows = self._sides.table().where(is_ours & (F.col(WINDOW_START) > F.lit(after)))
        found: list[str] = []
        with told_if_lost(self._sides.place, self._sides.window.snapshot, found):
            found += compare_results(results, rows.select(*self._aggregate.columns), self._aggregate)
        return found
