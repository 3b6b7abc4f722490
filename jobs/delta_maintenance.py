"""A Delta transaction on the files that a table consists of: which there are, and others in their place with the same rows.

Beside delta_transaction.py the one module that calls Delta's own classes; tests/integration/maintenance shows that it holds.
"""

import json
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.delta_transaction import DELTA, DeltaTransaction
from jobs.java_class import java_class
from jobs.maintenance.choosing import TableFile


class MaintenanceTransaction(DeltaTransaction):
    """Nobody's commits are watched, for a live stream makes one every few seconds. But whoever removes or re-adds one of the
    files that were taken, between opening and committing, makes the commit fail."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        super().__init__(spark, table, None)

    @property
    def seconds_kept(self) -> float:
        """How long the table itself asks that removed files are kept."""
        metadata = self._transaction.metadata()
        return float(java_class(self._spark, f"{DELTA}.DeltaLog").tombstoneRetentionMillis(metadata)) / 1000

    def files(self, before: datetime | None = None) -> list[TableFile]:
        """`before`: those that may hold a row whose record is older are told apart, by statistics."""
        oldest = F.to_timestamp(F.get_json_object("stats", "$.minValues._kafka_timestamp"))
        is_older = F.lit(False) if before is None else F.coalesce(oldest < F.lit(before), F.lit(True))
        found = DataFrame(self._transaction.snapshot().allFiles().toDF(), self._spark).select(
            "path",
            F.map_entries("partitionValues").alias("partition"),
            F.col("size").alias("bytes"),
            F.get_json_object("stats", "$.numRecords").cast("bigint").alias("rows"),
            F.coalesce("deletionVector.cardinality", F.lit(0)).alias("marked"),
            is_older.alias("may_be_older"),
        )
        return [
            TableFile(row.path, tuple(sorted(map(tuple, row.partition))), row.bytes, row.rows, row.marked, row.may_be_older)
            for row in found.collect()
        ]

    def take(self, files: Iterable[TableFile]) -> Any:
        """Those of them that the table still has, as it has them now."""
        is_one = F.col("path").isin([file.path for file in files])
        taken = self._list(*self._transaction.snapshot().allFiles().filter(is_one._jc).collect())
        self._transaction.trackFilesRead(taken)
        return taken

    def replace(self, taken: Any, rows: DataFrame) -> None:
        """The rows are those of the files: the commit says that it changes none."""
        no_options = java_class(self._spark, "scala.Option").empty()
        written = self._transaction.writeFiles(rows._jdf, no_options, True, self._list())
        now_ms = int(time.time() * 1000)
        self._files = self._list(*(self._without_change(written.apply(number)) for number in range(written.size())))
        self._marked = self._list(*(taken.apply(number).removeWithTimestamp(now_ms, False) for number in range(taken.size())))

    def commit_files(self, note: str) -> int:
        return self._commit(self._marked.appendedAll(self._files), note)

    def _without_change(self, added: Any) -> Any:
        told = json.loads(added.json())
        told["add"]["dataChange"] = False
        return java_class(self._spark, f"{DELTA}.actions.Action").fromJson(json.dumps(told))
