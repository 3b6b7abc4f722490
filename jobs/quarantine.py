"""The quarantine: records that cannot be turned into rows, kept with everything they came with (P3.3, P3.6).

Written before the sinks, under the fence, if absent by coordinates and spec hash. It has no tidemark that drops rows: the
offsets in its notes only tell how far it was written.
"""

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import COORDINATES
from include.tidemarks.note import Tidemark
from jobs.counting import Bounds
from jobs.explain import explain
from jobs.failpoints import Failpoint, reach
from jobs.fenced_table import FencedTable

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
        StructField("_spec_hash", StringType()),
        StructField("_generation", LongType()),
        StructField("_batch_id", LongType()),
    ]
)
BUDGET_ROWS, BUDGET_SHARE = 100, 0.01  # more than both in one batch: the producer or the schema is wrong, not a record
REASONS_TOLD = 3


class TooManyBadRecords(StreamFailure):
    """More bad records in one batch than a stream may quarantine by itself."""

    exit_class = ExitClass.POISON


class RecordsChanged(StreamFailure):
    """The same offsets gave other records when they were read again."""

    exit_class = ExitClass.INFRASTRUCTURE


class Quarantine:
    def __init__(self, table: FencedTable, stream: Stream) -> None:
        self.table = table
        self._stream = stream

    @property
    def newest(self) -> tuple[int, int]:
        """What a sink's commit names: a quarantine older than that went back."""
        return self.table.tidemark.generation, self.table.tidemark.batch

    def insert(self, bad_records: DataFrame, bounds: Bounds, moved: Tidemark, *, bad: int, read: int) -> None:
        """Those within bounds. `bad` of them were counted, among `read` records."""
        rows = self._rows(bad_records.where(bounds.includes()), moved)
        self._check_budget(rows, bad, read)
        open_batch = self.table.open_batch()
        seen = Observation()
        open_batch.write(self._absent(rows.observe(seen, F.count("*").alias("bad")), bounds))
        if (found := int(seen.get["bad"])) != bad:
            raise RecordsChanged(
                f"{bad:,} bad records were counted in batch {moved.batch}, but {found:,} when they were read again.",
                state="Nothing was committed.",
                next_step="Start the stream again: the batch is read anew.",
            )
        reach(Failpoint.BEFORE_QUARANTINE)
        open_batch.commit(moved, ())
        reach(Failpoint.AFTER_QUARANTINE)

    def _rows(self, bad_records: DataFrame, moved: Tidemark) -> DataFrame:
        return explain(bad_records, self._stream).select(
            "_topic",
            F.lit(moved.epoch).cast("int").alias("_topic_epoch"),
            *("_partition", "_offset", "_kafka_timestamp", "_key", "_headers", F.col("value").alias("_value")),
            *("_reason", "_detail"),
            F.lit(self.table.spec_hash).alias("_spec_hash"),
            F.lit(moved.generation).cast("bigint").alias("_generation"),
            F.lit(moved.batch).cast("bigint").alias("_batch_id"),
        )

    def _absent(self, rows: DataFrame, bounds: Bounds) -> DataFrame:
        """A crash between quarantine and sink leaves rows behind, which the replay meets here."""
        there = self.table.spark.read.format("delta").load(self.table.path)
        known = there.where(bounds.includes() & (F.col("_spec_hash") == self.table.spec_hash)).select(*COORDINATES)
        return rows.join(F.broadcast(known), list(COORDINATES), "left_anti").select(*SCHEMA.names)

    def _check_budget(self, rows: DataFrame, bad: int, read: int) -> None:
        if bad <= BUDGET_ROWS or bad <= read * BUDGET_SHARE:
            return
        told = rows.groupBy("_reason").agg(F.count("*").alias("n"), F.min(F.struct("_partition", "_offset")).alias("first"))
        reasons = told.orderBy(F.desc("n")).limit(REASONS_TOLD).collect()
        shown = "; ".join(
            f"{row['n']:,} {row['_reason']} (first: partition {row['first'][0]}, offset {row['first'][1]:,})" for row in reasons
        )
        raise TooManyBadRecords(
            f"{bad:,} of {read:,} records cannot be decoded, more than {BUDGET_ROWS} and more than {BUDGET_SHARE:.0%}: {shown}.",
            state="Nothing of this batch was written.",
            next_step="Mend the producer or the schema in the stream file, then start the stream again.",
            partition=reasons[0]["first"][0],
            offset=reasons[0]["first"][1],
            reasons={row["_reason"]: row["n"] for row in reasons},
        )
