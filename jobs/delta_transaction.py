"""One transaction of a Delta table: opened at a version, files written, committed at once or not at all.

Delta's public writer takes a commit's note before it runs the query; our note holds the ledger, which is known only after.
So this is the one module that calls Delta's own classes through the JVM: files first, then the note, in one pass over the
data. It stands on the pinned version, and tests/integration/jobs/test_delta_transaction.py shows that it holds.
"""

import json
import time
from typing import Any

from delta import exceptions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobs.commit_lock import commit_lock

# Delta's Python exceptions have no class of their own in common.
CONFLICTS = (
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentTransactionException,
    exceptions.ConcurrentWriteException,
    exceptions.DeltaConcurrentModificationException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
)


class DeltaTransaction:
    """Another commit with the same application id, between opening and committing, makes the commit fail with
    ConcurrentTransactionException. Foreign appends do not."""

    def __init__(self, spark: SparkSession, table: str, app_id: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, table)
        self._spark = spark
        self._table = table
        self._transaction = log.startTransaction()
        self._app_id = app_id
        self._files = jvm.scala.collection.immutable.List.newBuilder().result()
        self._transaction.readTxn().addOne(app_id)  # watched from here on; txnVersion() would do it too, for 0.6 s of Spark jobs
        self.version: int = self._transaction.readVersion()

    @property
    def metadata_text(self) -> str:
        return str(self._transaction.metadata().schemaString())

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.metadata_text))

    @property
    def partition_by(self) -> tuple[str, ...]:
        columns = self._transaction.metadata().partitionColumns()
        return tuple(columns.apply(number) for number in range(columns.size()))

    @property
    def rows_written(self) -> int:
        return sum(self._files.apply(number).numLogicalRecords().get() for number in range(self._files.size()))

    def write(self, rows: DataFrame) -> None:
        """Runs the query. Until the commit nobody sees the files."""
        self._files = self._transaction.writeFiles(rows._jdf)

    def commit(self, transaction_version: int, note: str) -> int:
        """The version that this commit became."""
        none, some = self._jvm.scala.Option.empty, self._jvm.scala.Option.apply
        delta = self._jvm.org.apache.spark.sql.delta
        now_ms = int(time.time() * 1000)
        mark = delta.actions.SetTransaction(self._app_id, transaction_version, some(now_ms))
        append = self._jvm.org.apache.spark.sql.SaveMode.Append
        operation = delta.DeltaOperations.Write(append, none(), none(), some(note), none(), none(), none(), none(), none())
        with commit_lock(self._spark, self._table):
            return int(self._transaction.commit(self._files.appended(mark), operation))


def make_table(spark: SparkSession, path: str, schema: StructType, partition_by: list[str]) -> None:
    """By an empty append, which unlike CREATE TABLE does not mind what a killed start left in the folder. If the table is
    there already, nothing but an empty commit is added."""
    empty = spark.createDataFrame([], schema).write.format("delta").mode("append").partitionBy(*partition_by)
    # A checkpoint of the log takes 1 to 3 s, by default every 10 commits; readers take 50 small files in their stride.
    with commit_lock(spark, path):
        empty.option("delta.checkpointInterval", "50").save(path)
