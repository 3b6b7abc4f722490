"""Deletes whose horizon has passed leave the table. A record of such a key that is older than its delete, and comes still later,
brings the key back: that is what `purge_deleted_after` declares.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.contract.environment import Maintenance
from include.contract.identity import DELETED
from include.tidemarks.note import Note
from jobs.delta_maintenance import MaintenanceTransaction
from jobs.delta_transaction import FILE_PATH, ROW_NUMBER
from jobs.maintenance.choosing import Limit, TableFile, split
from jobs.maintenance.tables import MaintainedTable
from jobs.maintenance.turns import commit_in_turns


class Purge:
    def __init__(self, spark: SparkSession, table: MaintainedTable, sizes: Maintenance, note: Callable[[], Note]) -> None:
        self._spark = spark
        self._table = table
        self._limit = Limit(sizes.commit_size)
        self._note = note
        self.before = datetime.now(UTC) - table.purge_after if table.purge_after else None
        self.rows = 0

    def run(self) -> int:
        """The number of rows that were taken out."""
        if self.before is not None:
            files = MaintenanceTransaction(self._spark, self._table.path).files(self.before)
            for group in split([file for file in files if file.may_be_older], self._limit):
                commit_in_turns(self._spark, self._table, group, self._take_out)
        return self.rows

    def _take_out(self, group: list[TableFile]) -> int | None:
        transaction = MaintenanceTransaction(self._spark, self._table.path)
        taken = transaction.take(group)
        is_expired = F.col(DELETED) & (F.col("_kafka_timestamp") < F.lit(self.before))
        where_it_lies = F.col("_metadata.file_path").alias(FILE_PATH), F.col("_metadata.row_index").alias(ROW_NUMBER)
        places = transaction.rows_of(taken).where(is_expired).select(*where_it_lies).persist()
        try:
            found = places.count()
            if not found:
                return None
            transaction.take_out(places, taken)
            version = transaction.commit_files(self._note().to_json())
        finally:
            places.unpersist()
        self.rows += found
        return version
