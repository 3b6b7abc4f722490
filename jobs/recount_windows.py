"""Recounts the results of windows of event time: they have no coordinates, so every window that a record of this reconciliation
window may be in, or that it may have closed, is made again from Kafka up to the snapshot's tidemark, and compared by its values.

1. Which windows: all that begin after a time. 2. Which records: from the batch that first had events of them, and as far before
it as its state remembered copies. 3. One copy of each record that was not late. 4. Results, key by key.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.stream_spec import Aggregate
from include.control.database import ControlDatabase
from include.topics.topic import TopicState
from jobs.copies import with_choice
from jobs.differences import quarantine_differences, told
from jobs.known_batches import KnownBatches
from jobs.lost_files import told_if_lost
from jobs.made_by import Group, of_one_state
from jobs.measuring import GOOD, Sides, copy_of, event_micros
from jobs.per_partition import quarantined_per_partition, records_per_partition
from jobs.recount_deduped import NOT_RECORDED
from jobs.result_comparison import Results, compare_results
from jobs.result_sides import DeltaResults, Reach
from jobs.stateful_frame import results_of
from jobs.window_counts import WindowCounts

EXPIRED = "Kafka begins at {earliest:,}, but records of its windows of event time, or copies of them, at {start:,}"
FORGOTTEN = (
    "{windows:,} windows of event time that its records are in began before the state did: they keep the value that they had"
)
DOUBTFUL = (
    "{windows:,} windows of event time have records of which it cannot be told whether they count: copies that lie further apart "
    "than `within`, or records that came when some of their windows were closed"
)


class ResultCounting(WindowCounts):
    def __init__(self, sides: Sides, aggregate: Aggregate, there: DeltaResults) -> None:
        super().__init__(sides, compacted=False)
        self._aggregate = aggregate
        self._there = there
        self._groups: list[Group] = []
        self._kept = ExitStack()

    def count(self, group: Group) -> None:
        self._groups.append(group)

    def finish(self, state: TopicState | None, control: ControlDatabase) -> Mapping[int, str]:
        if not self._groups or state is None:
            return {}
        not_judged: dict[int, str] = {}
        with self._kept, told_if_lost(self.sides.place, self.sides.window.snapshot, self.findings):
            mine = self._keep(self._records(self.sides))
            self._count(mine)
            not_judged = self._compare(mine.where(F.col("_fate") == GOOD), state, control)
        return not_judged

    def _count(self, records: DataFrame) -> None:
        self.add(
            self._partitions,
            records_per_partition(records.withColumn("hash", F.lit(0))),
            quarantined_per_partition(self.sides.quarantined(self._groups)),
        )
        self.see_time_of(records.where(F.col("_fate") == GOOD))
        self.differences += told(quarantine_differences(self.sides, self._groups, records), lambda _kind, _rows: "")

    def _compare(self, mine: DataFrame, state: TopicState, control: ControlDatabase) -> dict[int, str]:
        reach = Reach.of(self.sides, self._aggregate, mine)  # 1
        known = self._there.known(reach)  # 2
        why = self._why_not(known, state, control)
        if why is not None:
            return dict.fromkeys(self._partitions, why)
        good = self._records(replace(self.sides, known=known, kept=None), known).where(F.col("_fate") == GOOD)
        chosen = self._keep(self._chosen(good, reach, known))  # 3
        results = Results.of(chosen, self.sides.stream.spec, self._aggregate, reach.after(known), self._there.closed_ms)
        self.findings += compare_results(results, self._there.rows(reach.after(known)), self._aggregate)  # 4
        return dict.fromkeys(self._partitions, told_so) if (told_so := self._left_out(mine, chosen, results, known)) else {}

    def _why_not(self, known: KnownBatches, state: TopicState, control: ControlDatabase) -> str | None:
        if not known.is_whole:
            return NOT_RECORDED
        for one in known.spans:
            if (earliest := state.earliest.get(one.partition, 0)) > one.start:
                return EXPIRED.format(earliest=earliest, start=one.start)
        return of_one_state(self.sides.spark, control, self.sides.stream, known.spec_hashes)

    def _chosen(self, good: DataFrame, reach: Reach, known: KnownBatches) -> DataFrame:
        return with_choice(good, reach.within, reach.certain_from(known), known.forgotten_ms)

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
        forgotten = touched.where(F.unix_millis("window_start") <= known.forgotten_ms).count()
        return FORGOTTEN.format(windows=forgotten) if forgotten else None

    def _records(self, sides: Sides, known: KnownBatches | None = None) -> DataFrame:
        """All groups have the same rows: see `of_one_state`."""
        spec = self._groups[0].spec
        segments = known.spans if known else [one for group in self._groups for one in group.segments]
        rows = sides.records(spec, segments)
        return rows.withColumns({"_copy_of": copy_of(spec), "_at": event_micros(spec)})

    @property
    def _partitions(self) -> set[int]:
        return {one.partition for group in self._groups for one in group.segments}

    def _keep(self, frame: DataFrame) -> DataFrame:
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.callback(frame.unpersist)
        return frame
