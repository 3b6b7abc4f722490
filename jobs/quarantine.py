"""The quarantine: records that cannot be turned into rows, kept with everything they came with (P3.3, P3.6).

Written before the sinks, under the fence, if absent by coordinates and what judged them. It has no tidemark that drops rows: the
offsets in its notes only tell how far it was written. Records whose row a Delta sink cannot hold are kept here too, with the name
of that sink: its rejects (P3.6).
"""

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.fingerprint import judging_hash
from include.contract.identity import COORDINATES
from include.tidemarks.note import Tidemark
from jobs.counting import Bounds, Refusal
from jobs.explain import explain
from jobs.failpoints import Failpoint, reach
from jobs.fenced_table import FencedTable
from jobs.unfit import LATE, WHY

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SCHEMA = StructType(
    [
        StructField("_topic", StringType()),
        StructField("_topic_epoch", IntegerType()),
        StructField("_partition", IntegerType()),
        StructField("_offset", LongType()),
        StructField("_kafka_timestamp", TimestampType()),
        StructField("_key", BinaryType()),
        StructField("_headers", HEADERS),
        StructField("_value", BinaryType()),
        StructField("_reason", StringType()),
        StructField("_detail", StringType()),
        StructField("_sink", StringType()),  # NULL: no sink gets it
        StructField("_spec_hash", StringType()),
        StructField("_generation", LongType()),
        StructField("_batch_id", LongType()),
    ]
)
BUDGET_ROWS, BUDGET_SHARE = 100, 0.01  # more than both in one batch: the producer or the schema is wrong, not a record
REASONS_TOLD = 3
KNOWN_BY = (*COORDINATES, "_sink", "_spec_hash")  # a record is kept once for each way in which it was judged
REJECTED = "rejected"  # the reason of a record that one sink cannot hold


class TooManyBadRecords(StreamFailure):
    """More bad or rejected records in one batch than a stream may set aside by itself."""

    exit_class = ExitClass.POISON


class RecordsChanged(StreamFailure):
    """The same offsets gave other records when they were read again."""

    exit_class = ExitClass.INFRASTRUCTURE


class Quarantine:
    def __init__(self, table: FencedTable, stream: Stream) -> None:
        self.table = table
        self._stream = stream
        self._judged_by = judging_hash(stream)

    @property
    def newest(self) -> tuple[int, int]:
        """What a sink's commit names: a quarantine older than that went back."""
        return self.table.tidemark.generation, self.table.tidemark.batch

    def insert(self, records: DataFrame, bounds: Bounds, moved: Tidemark, refused: Mapping[Refusal, int], read: int) -> None:
        """Of the records of a batch, with their raw parts, those that are refused. So many were counted, among `read`."""
        parts = {refusal: self._rows(records, refusal, moved) for refusal in refused}
        for refusal, part in parts.items():
            self._check_budget(part, bounds, refusal, refused[refusal], read)
        rows = reduce(DataFrame.union, parts.values())
        open_batch = self.table.open_batch()
        seen = Observation()
        open_batch.write(self._absent(rows.observe(seen, F.count("*").alias("refused")), bounds))
        if (found := int(seen.get["refused"])) != (counted := sum(refused.values())):
            raise RecordsChanged(
                f"{counted:,} bad records were counted in batch {moved.batch}, but {found:,} when they were read again.",
                state="Nothing was committed.",
                next_step="Start the stream again: the batch is read anew.",
            )
        reach(Failpoint.BEFORE_QUARANTINE)
        open_batch.commit(moved, ())
        reach(Failpoint.AFTER_QUARANTINE)

    def _rows(self, records: DataFrame, refusal: Refusal, moved: Tidemark) -> DataFrame:
        mine = records.where(refusal.condition)
        told = {"_reason": F.lit(REJECTED), "_detail": F.lit(refusal.why)}
        return (mine.withColumns(told) if refusal.sink else self._explained(mine)).select(
            "_topic",
            F.lit(moved.epoch).cast("int").alias("_topic_epoch"),
            *("_partition", "_offset", "_kafka_timestamp", "_key", "_headers", F.col("value").alias("_value")),
            *("_reason", "_detail"),
            F.lit(refusal.sink).cast("string").alias("_sink"),
            F.lit(self.table.spec_hash if refusal.sink else self._judged_by).alias("_spec_hash"),
            F.lit(moved.generation).cast("bigint").alias("_generation"),
            F.lit(moved.batch).cast("bigint").alias("_batch_id"),
        )

    def _explained(self, records: DataFrame) -> DataFrame:
        """A stateful stream may refuse records that can be decoded, and says why."""
        told = explain(records, self._stream)
        if WHY not in records.columns:
            return told
        return told.withColumns(
            {"_reason": F.coalesce(f"{WHY}.reason", "_reason"), "_detail": F.coalesce(f"{WHY}.detail", "_detail")}
        )

    def _absent(self, rows: DataFrame, bounds: Bounds) -> DataFrame:
        """A crash between quarantine and sink leaves rows behind, which the replay meets here. Asking costs two jobs of Spark."""
        if not self.table.has_batches:
            return rows
        there = self.table.spark.read.format("delta").load(self.table.path)
        known = there.where(bounds.of_rows()).select(*KNOWN_BY).alias("known")
        is_same = reduce(and_, [F.col(f"rows.{name}").eqNullSafe(F.col(f"known.{name}")) for name in KNOWN_BY])
        return rows.alias("rows").join(F.broadcast(known), is_same, "left_anti").select(*SCHEMA.names)

    def _check_budget(self, rows: DataFrame, bounds: Bounds, refusal: Refusal, refused: int, read: int) -> None:
        """What is in it already was within the budget when it came, and is only read again for a sink that lacks it. Late records
        are sound: a file that has them kept here asks for no end because of them."""
        if _is_within_budget(refused, read):
            return
        rows = self._absent(rows, bounds).where(F.col("_reason") != LATE)
        if _is_within_budget(refused := rows.count(), read):
            return
        told = rows.groupBy("_reason").agg(F.count("*").alias("n"), F.min(F.struct("_partition", "_offset")).alias("first"))
        reasons = told.orderBy(F.desc("n")).limit(REASONS_TOLD).collect()
        shown = "; ".join(
            f"{row['n']:,} {row['_reason']} (first: partition {row['first'][0]}, offset {row['first'][1]:,})" for row in reasons
        )
        unfit = "cannot be decoded, or have no place in its state" if self._stream.spec.is_stateful else "cannot be decoded"
        what = f"cannot be rows of sink {refusal.sink}, because {refusal.why}" if refusal.sink else unfit
        raise TooManyBadRecords(
            f"{refused:,} of {read:,} records {what}, more than {BUDGET_ROWS} and more than {BUDGET_SHARE:.0%}: {shown}.",
            state="Nothing of this batch was written.",
            next_step="Mend the producer or the schema in the stream file, then start the stream again.",
            partition=reasons[0]["first"][0],
            offset=reasons[0]["first"][1],
            reasons={row["_reason"]: row["n"] for row in reasons},
        )


def _is_within_budget(bad: int, read: int) -> bool:
    return bad <= BUDGET_ROWS or bad <= read * BUDGET_SHARE
