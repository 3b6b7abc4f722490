"""Recounts a window of a PostgreSQL sink: Kafka's records, made into rows anew, are staged beside the table and compared."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.connections import read_connection
from include.contract.places import DatabaseTable
from include.contract.stream_spec import PostgresInsertNew, PostgresUpsert
from include.control.window_contents import Difference
from include.tidemarks.postgres_connection import connect, first_line, told
from include.tidemarks.postgres_log import target_of
from jobs.differences import STRANGE, ranges_of
from jobs.made_by import Group
from jobs.measuring import GOOD, Sides
from jobs.per_partition import PerPartition, quarantined_per_partition, records_per_partition
from jobs.postgres.books import digest_of
from jobs.postgres.columns_there import columns_there
from jobs.postgres.comparison import Comparison, count_rejects
from jobs.postgres.snapshot import APPLICATION, snapshot_of
from jobs.postgres.staging import Staged, Staging
from jobs.postgres.statements import Statements, staged_columns
from jobs.postgres.text_forms import as_texts
from jobs.postgres.wanted_table import wanted_table
from jobs.window_counts import WindowCounts


class PostgresCounting(WindowCounts):
    """What every kind of PostgreSQL sink has in common."""

    def __init__(self, sides: Sides, *, compacted: bool) -> None:
        super().__init__(sides, compacted=compacted)
        assert isinstance(sides.place, DatabaseTable)  # noqa: S101 - its settings say so
        self.place = sides.place
        self.where = read_connection(sides.place.connection)
        self.target = target_of(sides.place)

    def add_group(self, group: Group, records: DataFrame, *of_sink: PerPartition) -> None:
        of_kafka = records_per_partition(records.withColumn("hash", F.lit(0)))
        of_quarantine = quarantined_per_partition(self.sides.quarantined([group]))
        self.add({one.partition for one in group.segments}, of_kafka, of_quarantine, *of_sink)
        self.see_time_of(records.where(F.col("_fate") == GOOD))


class KeyedCounting(PostgresCounting):
    """Of a table whose rows are records, one for each key."""

    def __init__(self, sides: Sides, settings: PostgresInsertNew | PostgresUpsert, *, compacted: bool) -> None:
        super().__init__(sides, compacted=compacted)
        self._settings = settings

    def count(self, group: Group) -> None:
        records = self.sides.records(group.spec, group.segments).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with self._staged(group, records) as (staging, staged), snapshot_of(self.where) as cursor:
                in_table = self._compare(cursor, group, staging, staged)
                rejects = count_rejects(cursor, self.target, self.sides.window.epoch, group.segments)
            self.add_group(group, records, in_table, rejects)
        finally:
            records.unpersist()

    @contextmanager
    def _staged(self, group: Group, records: DataFrame) -> Iterator[tuple[Staging, Staged]]:
        columns = staged_columns(self._settings, group.spec.shape.names)
        staging = Staging(self.where, APPLICATION, f"recount_{digest_of(self.target)}_{self.sides.window.id}", len(columns))
        staging.drop()  # what a measuring that was killed has left; so does drop_older
        with told(self.where, "Nothing was changed."), closing(connect(self.where, APPLICATION)) as connection:
            staging.make(connection.cursor())
            connection.commit()
        staging.drop_older()
        try:
            yield staging, staging.write(as_texts(records.where(F.col("_fate") == GOOD), columns))
        finally:
            staging.drop()

    def _compare(self, cursor: Cursor, group: Group, staging: Staging, staged: Staged) -> PerPartition:
        wanted = wanted_table(self.place, self._settings, group.spec.shape)
        there = columns_there(cursor, wanted)
        if missing := [column.name for column in wanted.columns if column.name not in there]:
            self.findings.append(f"{self.place} has no column {', '.join(missing)}")
            return {}
        statements = Statements(self._settings, wanted, there, staged_columns(self._settings, group.spec.shape.names))
        cursor.execute(SQL("SELECT count(*) FROM ({}) s").format(staging.rows_of(staged)))
        staging.check_rows(staged, *(cursor.fetchone() or (0,)))
        comparison = Comparison(cursor, statements, self.target, self.sides.window.epoch, group.segments)
        try:
            comparison.expect(staging.rows_of(staged), self.sides.topic.name)
        except psycopg2.DataError as error:
            self.findings.append(f"a record that the database refuses is not among its rejects: {first_line(error)}")
            cursor.connection.rollback()
            return {}
        if unique := self.sides.stream.spec.reconcile.unique:
            self.add_keys(*comparison.keys(unique))
        for kind, partition, records, offsets in comparison.differences():
            if self.compacted and kind == STRANGE:  # Kafka may have deleted the record: that tells nothing (P7.3)
                continue
            example = self.sides.key_of(group.spec, partition, offsets[0], self._settings.key)
            ranges = tuple(ranges_of(offsets))
            self.differences.append(Difference(kind=kind, partition=partition, records=records, ranges=ranges, example=example))
        return comparison.counts()
