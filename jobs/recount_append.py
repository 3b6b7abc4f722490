"""Recounts a window of a Delta table to which every row is appended: counts, coordinates and checksums of each partition."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.differences import find_differences, is_even
from jobs.lost_files import told_if_lost
from jobs.made_by import Group
from jobs.per_partition import quarantined_per_partition, records_per_partition, rows_per_partition
from jobs.window_counts import WindowCounts


class AppendCounting(WindowCounts):
    def count(self, group: Group) -> None:
        """The table first, then Kafka, the quarantine last (P7.1)."""
        rows = self.sides.rows(group.spec, group.segments)
        records = self.records_of(group)
        try:
            with told_if_lost(self.sides.place, self.sides.window.snapshot, self.findings):
                self._count(group, rows, records)
        finally:
            rows.unpersist()
            records.unpersist()

    def records_of(self, group: Group) -> DataFrame:
        return self.sides.kafka(group.spec, group.segments)

    def _count(self, group: Group, rows: DataFrame, records: DataFrame) -> None:
        of_table, of_kafka = rows_per_partition(rows), records_per_partition(records)
        of_quarantine = quarantined_per_partition(self.sides.quarantined([group]))
        self.add({one.partition for one in group.segments}, of_table, of_kafka, of_quarantine)
        self._count_keys(rows)
        self.see_time_of(rows)
        uneven = {number for number, one in self.counted.items() if self.compacted or not is_even(one)}
        if of_group := [one for one in group.segments if one.partition in uneven]:
            self.differences += find_differences(self.sides, group.spec, of_group, rows, records, compacted=self.compacted)

    def _count_keys(self, rows: DataFrame) -> None:
        if self.sides.stream.spec.reconcile.unique:
            self.add_keys(*(rows.agg(F.count("key"), F.count_distinct("key")).first() or (0, 0)))
