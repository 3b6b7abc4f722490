"""Rows that a stateful stream cannot take: without a key or an event time, or with a time that lies ahead. They are quarantined:
one record from the future would move the watermark, and all others would be late (P6.4).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.contract.catalog import Stream
from include.contract.stream_spec import AHEAD_AT_MOST, StreamSpec, Watermark

WHY = "_why"  # reason and detail of a record that was decoded and is bad nevertheless
NO_VALUE, AHEAD, LATE = "no_value", "ahead", "late"


def mark_unfit(rows: DataFrame, stream: Stream) -> DataFrame:
    """Adds `_why`, NULL for a row that fits, and lets `_bad` hold of the others."""
    asked = ~F.col("_bad") & ~F.col("_filtered")
    marked = rows.withColumn(WHY, F.when(asked, _why(stream.spec)))
    return marked.withColumn("_bad", F.col("_bad") | F.col(WHY).isNotNull())


def why(reason: str, detail: Column) -> Column:
    return F.struct(F.lit(reason).alias("reason"), detail.alias("detail"))


def _why(spec: StreamSpec) -> Column:
    watermark = watermark_of(spec)
    found = F.when(
        _is_ahead(watermark.event_time), why(AHEAD, F.concat(F.col(watermark.event_time).cast("string"), _than_kafka()))
    )
    return F.coalesce(
        *(F.when(F.col(name).isNull(), why(NO_VALUE, F.lit(f"{name} has no value"))) for name in needed(spec)), found
    )


def watermark_of(spec: StreamSpec) -> Watermark:
    if spec.watermark is None:
        raise ValueError("the stream is stateless")
    return spec.watermark


def needed(spec: StreamSpec) -> list[str]:
    """Columns without which a row can be told neither from others nor in time."""
    keys = [*(spec.dedupe.key if spec.dedupe else []), *(spec.aggregate.key if spec.aggregate else [])]
    return list(dict.fromkeys([watermark_of(spec).event_time, *keys]))


def _is_ahead(event_time: str) -> Column:
    limit = F.unix_micros("_kafka_timestamp") + F.lit(int(AHEAD_AT_MOST.total_seconds() * 1_000_000))
    return F.unix_micros(event_time) > limit


def _than_kafka() -> Column:
    return F.concat(F.lit(" lies more than an hour ahead of Kafka's time, "), F.col("_kafka_timestamp").cast("string"))
