"""What became of each record of a stateful batch, from a batch read of its exact range: bad, filtered and late records never come
out of a stateful operator, and duplicates are what did not come out though it is none of these (P6.4).
"""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from include.start_plan.event_times import tell_time
from include.tidemarks.note import LedgerLine
from jobs.spark_counts import SparkCounts
from jobs.stateful_frame import GOOD, PLACE, is_late, late_groups
from jobs.unfit import LATE, WHY, watermark_of, why

CAME_LATE = "_came_late"  # whatever the policy


class SparkCountsDiffer(StreamFailure):
    """What was counted from Kafka is not what Spark's stateful operators say."""

    exit_class = ExitClass.UNKNOWN  # if it repeats, somebody must look: it is no outage


@dataclass(frozen=True)
class Fates:
    """Of one batch, per partition; and the newest event time of each."""

    lines: dict[int, LedgerLine]
    newest_ms: dict[int, int]
    late: int
    duplicates: int


def with_lateness(rows: DataFrame, stream: Stream, late_ms: int) -> DataFrame:
    """Adds `_late`; or, where late records are quarantined, lets `_bad` hold of them."""
    spec = stream.spec
    came_late = rows.withColumn(CAME_LATE, F.expr(GOOD) & is_late(spec, late_ms))
    if not spec.quarantines_late:
        return came_late.withColumn("_late", F.col(CAME_LATE))
    told = F.concat(
        F.col(watermark_of(spec).event_time).cast("string"), F.lit(f" is not after the watermark, {tell_time(late_ms)}")
    )
    refused = {
        WHY: F.when(F.col(CAME_LATE), why(LATE, told)).otherwise(F.col(WHY)),
        "_bad": F.col("_bad") | F.col(CAME_LATE),
    }
    return came_late.withColumns(refused).withColumn("_late", F.lit(False))


def mark_duplicates(rows: DataFrame, survivors: DataFrame) -> DataFrame:
    """`survivors`: the coordinates that came out of dedupe."""
    survived = survivors.withColumn("_survived", F.lit(True))
    found = rows.join(survived, [*PLACE], "left").withColumn("_survived", F.coalesce("_survived", F.lit(False)))
    return found.withColumn("_duplicate", F.expr(f"{GOOD} AND NOT _late AND NOT _survived")).drop("_survived")


def count_fates(rows: DataFrame, stream: Stream, spark_says: SparkCounts) -> Fates:
    """One small row per partition. Duplicates of a stream whose rows do not come out are what Spark's operator let pass less."""
    event_time, has_duplicates = watermark_of(stream.spec).event_time, "_duplicate" in rows.columns
    counted = rows.groupBy("_partition").agg(
        F.count("*").alias("read"),
        *(F.count_if(name).alias(name) for name in ("_bad", "_filtered", "_late", CAME_LATE)),
        F.count_if("_duplicate" if has_duplicates else F.lit(False)).alias("_duplicate"),
        F.max(F.when(F.expr(f"{GOOD} OR {CAME_LATE}"), F.unix_millis(event_time))).alias("newest"),
    )
    lines, newest, late, duplicates = {}, {}, 0, 0
    for row in counted.toLocalIterator():
        number = row["_partition"]
        good = row["read"] - row["_bad"] - row["_filtered"] - row["_late"]
        twice = row["_duplicate"] if has_duplicates or not stream.spec.dedupe else good - spark_says.survivors.get(number, 0)
        lines[number] = LedgerLine(
            partition=number,
            start=0,
            end=0,
            read=row["read"],
            quarantined=row["_bad"],
            filtered=row["_filtered"],
            late=row["_late"],
            duplicates=twice,
            delivered=good - twice,
        )
        late, duplicates = late + row[CAME_LATE], duplicates + twice
        if row["newest"] is not None:
            newest[number] = row["newest"]
    return Fates(lines, newest, late, duplicates)


def check_with_spark(fates: Fates, rows: DataFrame, stream: Stream, late_ms: int, spark_says: SparkCounts) -> None:
    """Before anything is written."""
    late = fates.late
    if (late or spark_says.late) and stream.spec.dedupe is None and stream.spec.aggregate is not None:
        # An aggregate counts groups of late records, also of those that are late for some of their windows alone.
        late = late_groups(rows.where(f"{GOOD} OR {CAME_LATE}"), stream.spec, stream.spec.aggregate, late_ms)
    counts = {"late": (late, spark_says.late), "duplicates": (fates.duplicates, spark_says.duplicates)}
    for what, (ours, theirs) in counts.items():
        if ours != theirs:
            raise SparkCountsDiffer(
                f"{ours:,} {what} were counted from Kafka, but Spark's stateful operators dropped {theirs:,}.",
                state="Nothing of this batch was written.",
                next_step="Start the stream again; if it repeats, keep the driver's log and report it.",
            )
