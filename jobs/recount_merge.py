"""Recounts a window of a Delta table that holds the newest row of each key: Kafka's records, made into rows anew and reduced to
the newest of each key, against the rows that the table has of these keys, and those that say they are records of the window.

The cost follows the window and the files in which its keys may lie.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from include.contract.identity import DELETED
from include.contract.stream_spec import DeltaMerge
from include.control.database import ControlDatabase
from include.topics.topic import TopicState
from jobs.differences import HELD, NOT_BAD, quarantine_differences, reject_differences, told
from jobs.kept_rows import cached
from jobs.lost_files import told_if_lost
from jobs.made_by import Group, find_groups
from jobs.measuring import GOOD, PLACE, Sides
from jobs.merge_comparison import compare_keys, compare_places, newest_of, with_key_as_text
from jobs.merge_sides import MergeSides, merged_otherwise
from jobs.per_partition import quarantined_per_partition, records_per_partition, rejects_per_partition, rows_per_partition
from jobs.purged import merged_since, without_purged
from jobs.window_counts import WindowCounts

KEYS_NAMED = 5  # of one kind in one partition


class MergeCounting(WindowCounts):
    """A key may have records in every group: they are compared together, when the last one is known."""

    def __init__(self, sides: Sides, settings: DeltaMerge, *, compacted: bool) -> None:
        super().__init__(sides, compacted=compacted)
        self._purge_after = settings.purge_deleted_after
        self._groups: list[Group] = []

    def count(self, group: Group) -> None:
        self._groups.append(group)

    def finish(self, state: TopicState | None, control: ControlDatabase) -> Mapping[int, str]:
        if not self._groups:
            return {}
        later, unknown = find_groups(self.sides.spark, control, self.sides.stream, merged_since(self.sides))
        mine = MergeSides(self.sides, self._groups)
        if why := next(iter(unknown.values()), None) or merged_otherwise([*self._groups, *later], self.sides.window.sink):
            return dict.fromkeys({one.partition for one in mine.segments}, why)
        with ExitStack() as kept, told_if_lost(self.sides.place, self.sides.window.snapshot, self.findings):
            self._compare(mine, MergeSides(self.sides, later), kept)
        return {}

    def _compare(self, mine: MergeSides, later: MergeSides, kept: ExitStack) -> None:
        records = cached(mine.records(), kept)
        newest = cached(newest_of(records.where(F.col("_fate") == GOOD), mine.settings.key), kept)
        there = cached(mine.there(newest), kept)
        self._count(mine, records, there)
        by_key = cached(compare_keys(newest, there, mine.settings.key), kept)
        if self._purge_after is not None and not by_key.isEmpty():
            by_key = without_purged(by_key, newest, later, mine.settings.key, datetime.now(UTC) - self._purge_after)
        by_place = compare_places(there, records, mine.settings.key, compacted=self.compacted)
        of_keys = with_key_as_text(by_key.drop("_there").unionByName(by_place), mine.settings.key)
        aside = quarantine_differences(self.sides, self._groups, records).union(
            reject_differences(self.sides, self._groups, records)
        )
        if self.compacted:
            aside = aside.where(~F.col("kind").isin(NOT_BAD, HELD))
        named = cached(of_keys.unionByName(aside.withColumn("_who", F.lit(""))), kept)
        self.differences += told(named, _keys_named)

    def _count(self, mine: MergeSides, records: DataFrame, there: DataFrame) -> None:
        of_window = there.where("_in_window").withColumnRenamed("_hash", "hash")
        self.add(
            {one.partition for one in mine.segments},
            rows_per_partition(of_window),
            records_per_partition(records.select(*PLACE, "_fate", F.lit(0).alias("hash"))),
            quarantined_per_partition(self.sides.quarantined(self._groups)),
            rejects_per_partition(self.sides.rejected(self._groups)),
        )
        self.see_time_of(records.where(F.col("_fate") == GOOD))
        if self.sides.stream.spec.reconcile.unique:  # a delete may have none of its values
            alive = of_window.where(~F.col(DELETED))
            self.add_keys(*(alive.agg(F.count("_declared"), F.count_distinct("_declared")).first() or (0, 0)))


def _keys_named(_kind: str, rows: list[Row]) -> str:
    return "; ".join(row["_who"] for row in rows[:KEYS_NAMED] if row["_who"])
