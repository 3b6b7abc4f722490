"""Recounts the results of windows of event time: they have no coordinates, so every window that a record of this reconciliation
window may be in, or that it may have closed, is made again from Kafka up to the snapshot's tidemark, and compared by its values.

1. Which windows: all that begin after a time. 2. Which records: from the batch that first had events of them, and as far before
it as its state remembered copies. 3. One copy of each record that was not late. 4. Results, key by key.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime
from functools import reduce
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.stream_spec import WINDOW_START, Aggregate
from include.control.database import ControlDatabase
from include.topics.topic import TopicState
from jobs.differences import quarantine_differences, told
from jobs.kept_rows import cached
from jobs.known_batches import KnownBatches
from jobs.made_by import Group
from jobs.measuring import GOOD, Sides, event_micros
from jobs.past_records import PastRecords
from jobs.per_partition import quarantined_per_partition, records_per_partition
from jobs.reach import Reach
from jobs.result_comparison import Results
from jobs.stateful_frame import results_of
from jobs.window_counts import WindowCounts

FORGOTTEN = (
    "{windows:,} windows of event time that its records are in began before the state did: they keep the value that they had"
)
DOUBTFUL = (
    "{windows:,} windows of event time have records of which it cannot be told whether they count: copies that lie further apart "
    "than `within`, or records that came when some of their windows were closed"
)


class ResultTable(Protocol):
    """Where results stand, at one snapshot."""

    def looked_at(self) -> AbstractContextManager[None]:
        """For as long as it is asked."""

    def known(self, reach: Reach) -> KnownBatches:
        """The batches of which the results were made, as far back as they are judged."""

    def compare(self, results: Results, after: datetime) -> list[str]:
        """A sentence for each of the first that differ."""


class ResultCounting(WindowCounts):
    def __init__(self, sides: Sides, aggregate: Aggregate, there: ResultTable) -> None:
        super().__init__(sides, compacted=False)
        self._aggregate = aggregate
        self._there = there
        self._groups: list[Group] = []

    def count(self, group: Group) -> None:
        self._groups.append(group)

    def finish(self, state: TopicState | None, control: ControlDatabase) -> Mapping[int, str]:
        if not self._groups or state is None:
            return {}
        with ExitStack() as until, self._there.looked_at():
            mine = cached(self._records(), until)
            self._count(mine)
            why = self._compare(mine.where(F.col("_fate") == GOOD), state, control, until)
        return dict.fromkeys(self._partitions, why) if why else {}

    def _records(self) -> DataFrame:
        """All groups have the same columns (see `as_made`), but perhaps not the same policy for late records."""
        of_each = (self.sides.records(one.spec, one.segments).withColumn("_at", event_micros(one.spec)) for one in self._groups)
        return reduce(DataFrame.unionByName, of_each)

    def _count(self, records: DataFrame) -> None:
        self.add(
            self._partitions,
            records_per_partition(records.withColumn("hash", F.lit(0))),
            quarantined_per_partition(self.sides.quarantined(self._groups)),
        )
        self.see_time_of(records.where(F.col("_fate") == GOOD))
        self.differences += told(quarantine_differences(self.sides, self._groups, records), lambda _kind, _rows: "")

    def _compare(self, mine: DataFrame, state: TopicState, control: ControlDatabase, until: ExitStack) -> str | None:
        """Returns what could not be judged."""
        reach = Reach.of_windows(self.sides, self._aggregate, mine)  # 1
        known = self._there.known(reach)
        past = PastRecords(self.sides, self._groups[0].spec, reach, known)  # 2
        if why := past.why_not(state, control):
            return why
        chosen = cached(past.chosen(), until)  # 3
        after = reach.after(known)
        results = Results.of(chosen, self.sides.stream.spec, self._aggregate, after, known.closed_ms)
        self.findings += self._there.compare(results, after)  # 4
        return self._left_out(mine, chosen, results, known)

    def _left_out(self, mine: DataFrame, chosen: DataFrame, results: Results, known: KnownBatches) -> str | None:
        """And how many of the window's records are duplicates, where that can be told."""
        window = self.sides.window
        in_window = F.col("_batch").between(window.after_version + 1, window.up_to_version)
        if doubtful := results.doubtful.count():
            return DOUBTFUL.format(windows=doubtful)
        self.duplicates = chosen.where(in_window & ~F.col("_passes")).count()
        if known.forgotten_ms is None:
            return None
        touched = results_of(mine, self.sides.stream.spec, self._aggregate)
        forgotten = touched.where(F.unix_millis(WINDOW_START) <= known.forgotten_ms).count()
        return FORGOTTEN.format(windows=forgotten) if forgotten else None

    @property
    def _partitions(self) -> set[int]:
        return {one.partition for group in self._groups for one in group.segments}
