"""One transaction of a Delta table: opened at a version, files written, committed at once or not at all.

Delta's public writer takes a commit's note before it runs the query; our note holds the ledger, which is known only after.
So this module, and delta_maintenance.py beside it, call Delta's own classes through the JVM: files first, then the note, in one
pass over the data. It stands on the pinned version, and tests/integration/jobs/test_delta_transaction.py shows that it holds.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from delta import exceptions
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.commit_lock import commit_lock
from jobs.java_class import java_class

DELTA = "org.apache.spark.sql.delta"
FILE_PATH, ROW_NUMBER = "_file_path", "_row_number"  # where a row lies
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
    ConcurrentTransactionException. Foreign appends do not. Without an application id nobody's commits are watched."""

    def __init__(self, spark: SparkSession, table: str, app_id: str | None) -> None:
        self._spark = spark
        self._table = table
        log = java_class(spark, f"{DELTA}.DeltaLog").forTable(spark._jsparkSession, table)
        self._transaction = log.startTransaction()
        self._app_id = app_id
        self._log = log
        self._files = self._marked = self._list()
        if app_id is not None:
            self._transaction.readTxn().addOne(app_id)  # watched from here on; txnVersion() would do it too, for 0.6 s of jobs
        self.version: int = self._transaction.readVersion()

    @property
    def table_id(self) -> str:
        return str(self._transaction.metadata().id())

    @property
    def has_mapped_columns(self) -> bool:
        """Then its files know them by other names."""
        return str(self._transaction.metadata().columnMappingMode().name()) != "none"

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

    def add_columns(self, lacking: StructType) -> None:
        """Become visible with this commit: rows that are there already have NULL in them."""
        there = self._transaction.metadata()
        grown = StructType([*self.schema, *lacking]).json()
        parts = (there.id(), there.name(), there.description(), there.format(), grown)
        more = (there.partitionColumns(), there.configuration(), there.createdTime())
        self._transaction.updateMetadata(there.copy(*parts, *more), False)

    def all_files(self) -> Iterator[dict[str, Any]]:
        """All that the table consists of, as its log has them. Takes Spark jobs over the whole log."""
        every = DataFrame(self._transaction.snapshot().allFiles().toDF(), self._spark)
        as_logged = every.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("file"))
        return (json.loads(row.file) for row in as_logged.toLocalIterator())

    def read(self, files: Iterable[Mapping[str, Any]], conditions: Iterable[Column]) -> Any:
        """Only these files may hold rows of which all conditions are true. If another removes one of them before this commit, or
        adds one that may hold such rows, it fails."""
        taken = self._list(*map(self._from_json, files))
        self._transaction.trackFilesRead(taken)
        self._transaction.trackReadPredicates(self._list(*self._resolved(conditions)), False, True)
        return taken

    def _resolved(self, conditions: Iterable[Column]) -> Iterator[Any]:
        """Optimized, for added files are compared with values only, not with expressions that give one."""
        for one in conditions:
            plan = self.rows_of(self._list()).where(one)._jdf.queryExecution().optimizedPlan()
            if plan.nodeName() == "Filter":
                yield plan.condition()

    def rows_of(self, files: Any) -> DataFrame:
        no_kind = java_class(self._spark, "scala.Option").empty()
        return DataFrame(self._log.createDataFrame(self._transaction.snapshot(), files, False, no_kind), self._spark)

    def take_out(self, places: DataFrame, files: Any) -> None:
        """Rows by the path of their file and their number in it: marked there as deleted (deletion vectors), not rewritten."""
        vectors, marking = (self._singleton(name) for name in ("DeletionVectorBitmapGenerator", "DMLWithDeletionVectorsHelper"))
        some = java_class(self._spark, "scala.Option").apply
        every = places.where(F.lit(True))._jdf.queryExecution().analyzed().condition()
        columns = [some(F.col(name)._jc) for name in (FILE_PATH, ROW_NUMBER)]
        taken = vectors.buildRowIndexSetsForFilesMatchingCondition(
            self._spark._jsparkSession, self._transaction, True, places._jdf, files, every, *columns
        )
        by_name = marking.generateCandidateFileMap(self._log.dataPath(), files)
        touched = marking.findFilesWithMatchingRows(self._transaction, by_name, taken)
        self._marked = self._list(*self._with_marks(touched.apply(number) for number in range(touched.size())))

    def _with_marks(self, touched: Iterable[Any]) -> Iterator[Any]:
        """With the statistics that the files have, so Delta need not look for them in its log, as its own DELETE does."""
        now_ms = int(time.time() * 1000)
        for one in touched:
            file = self._counted(one.fileLogEntry())
            if one.isFullyReplaced():
                yield file.removeWithTimestamp(now_ms, True)
            else:
                marked = file.removeRows(one.newDeletionVector(), True, True)
                yield marked._1()
                yield marked._2()

    def _counted(self, file: Any) -> Any:
        """Somebody may have written it without statistics; with marks, Delta has to know its number of rows."""
        if file.stats():
            return file
        counted = json.dumps({"numRecords": self.rows_of(self._list(file)).count()})
        return self._from_json({**json.loads(file.json())["add"], "stats": counted})

    def _from_json(self, file: Mapping[str, Any]) -> Any:
        return java_class(self._spark, f"{DELTA}.actions.Action").fromJson(json.dumps({"add": file}))

    def commit(self, transaction_version: int, note: str) -> int:
        """The version that this commit became."""
        now_ms = java_class(self._spark, "scala.Option").apply(int(time.time() * 1000))
        mark = java_class(self._spark, f"{DELTA}.actions.SetTransaction")(self._app_id, transaction_version, now_ms)
        return self._commit(self._marked.appendedAll(self._files).appended(mark), note)

    def _commit(self, actions: Any, note: str) -> int:
        option = java_class(self._spark, "scala.Option")
        append, none = java_class(self._spark, "org.apache.spark.sql.SaveMode").Append, option.empty()
        write = java_class(self._spark, f"{DELTA}.DeltaOperations$Write")
        operation = write(append, none, none, option.apply(note), none, none, none, none, none)
        with commit_lock(self._spark, self._table):
            return int(self._transaction.commit(actions, operation))

    def _singleton(self, name: str) -> Any:
        return getattr(java_class(self._spark, f"{DELTA}.commands.{name}$"), "MODULE$")

    def _list(self, *members: Any) -> Any:
        builder = java_class(self._spark, "scala.collection.immutable.List").newBuilder()
        for member in members:
            builder.addOne(member)
        return builder.result()


def make_table(
    spark: SparkSession, path: str, schema: StructType, partition_by: list[str], properties: Mapping[str, str] | None = None
) -> None:
    """By an empty append, which unlike CREATE TABLE does not mind what a killed start left in the folder. If the table is
    there already, nothing but an empty commit is added."""
    empty = spark.createDataFrame([], schema).write.format("delta").mode("append").partitionBy(*partition_by)
    # A checkpoint of the log takes 1 to 3 s, by default every 10 commits; readers take 50 small files in their stride.
    with commit_lock(spark, path):
        empty.options(**{"delta.checkpointInterval": "50"}, **(properties or {})).save(path)
