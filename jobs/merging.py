"""How a batch gets into a table that holds the newest row of each key (P4), in one commit.

1. The batch is reduced to the newest row of each key. 2. Only files that may hold these keys are read, by partition and by
statistics. 3. A row that is newer than the one in the table is written, and that one is marked as deleted in its file. 4. What
was not written is superseded. So the cost follows the batch and the files that its keys lie in, not the table.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F

from include.tidemarks.note import LedgerLine, Tidemark
from jobs.counting import check_rows
from jobs.delta_transaction import FILE_PATH, ROW_NUMBER, DeltaTransaction
from jobs.fenced_table import OpenDeltaBatch
from jobs.key_order import as_one_value
from jobs.key_spans import files_with_keys, sent, spans, where_they_lie

if TYPE_CHECKING:
    from jobs.merge_table import MergeTable


class OpenMergeBatch(OpenDeltaBatch):
    def __init__(self, table: "MergeTable", transaction: DeltaTransaction) -> None:
        super().__init__(table, transaction)
        self._settings, self._order, self._columns = table.settings, table.order, table.columns
        self._live_files = table.live_files
        self._written: dict[int, int] = {}

    def write(self, rows: DataFrame) -> int:
        """The number of rows that were compared, also of those that are not the newest."""
        with _kept(self._newest(rows)) as newest:  # 1
            counts = F.coalesce(F.sum("_records"), F.lit(0)).alias("_records"), F.count("*").alias("_keys")
            found = newest.agg(
                *counts, F.collect_set("_partition").alias("_partitions"), *spans(self._settings)
            )  # results have none
            batch = found.first() or Row(_records=0, _keys=0)
            if batch["_keys"]:
                self._merge(newest, batch)
        return int(batch["_records"])

    def _newest(self, rows: DataFrame) -> DataFrame:
        others = F.struct(*(name for name in self._columns if name not in self._settings.key))
        newest = F.max_by(others, as_one_value(self._order)).alias("_row")
        grouped = rows.groupBy(*self._settings.key).agg(newest, F.count("*").alias("_records"))
        return grouped.select(*self._settings.key, "_row.*", "_records")

    def _merge(self, newest: DataFrame, batch: Row) -> None:
        files = self._files_with(newest, batch)  # 2
        seen = Observation()
        with _kept(self._decided(newest, files, batch["_keys"])) as decided:
            self._transaction.write(decided.observe(seen, *_counts(batch["_partitions"])).select(*self._columns))  # 3
            self._written = {number: int(seen.get[f"written_{number}"]) for number in batch["_partitions"]}
            check_rows(self._transaction.rows_written, seen.get["written"], self._table.sink)
            if seen.get["replaced"]:
                self._transaction.take_out(decided.select(F.explode("_places").alias("place")).select("place.*"), files)

    def _files_with(self, newest: DataFrame, batch: Row) -> Any:
        files = self._live_files.at(self._transaction)
        if not self._transaction.has_mapped_columns:
            files = files_with_keys(files, self._settings, newest, batch)
        return self._transaction.read((file.added for file in files), where_they_lie(self._settings, newest, batch))

    def _decided(self, newest: DataFrame, files: Any, keys: int) -> DataFrame:
        """The rows to write, each with the places of those that it replaces: more than one, if somebody appended a key again."""
        key, wanted = self._settings.key, newest.select(*self._settings.key)
        there = self._transaction.rows_of(files).select(
            *key,
            as_one_value(self._order).alias("_there"),
            F.struct(F.col("_metadata.file_path").alias(FILE_PATH), F.col("_metadata.row_index").alias(ROW_NUMBER)).alias(
                "_place"
            ),
        )
        hits = there.join(sent(wanted, keys), key)
        standing = hits.groupBy(*key).agg(F.max("_there").alias("_there"), F.collect_list("_place").alias("_places"))
        is_newer = F.col("_there").isNull() | (as_one_value(self._order) > F.col("_there"))
        return newest.join(standing, key, "left").where(is_newer)

    def commit(
        self, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None = None
    ) -> list[LedgerLine]:
        return super().commit(tidemark, [self._booked(line) for line in ledger], quarantine)

    def _booked(self, line: LedgerLine) -> LedgerLine:
        if self._settings.order is None:
            return line
        written = self._written.get(line.partition, 0)
        return line.model_copy(update={"delivered": written, "superseded": line.delivered - written})  # 4


def _counts(partitions: Iterable[int]) -> Iterator[Column]:
    yield F.count("_places").alias("replaced")
    yield F.count("*").alias("written")
    for number in partitions:
        yield F.expr(f"count_if(_partition = {number:d})").alias(f"written_{number}")


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows
    finally:
        rows.unpersist()
