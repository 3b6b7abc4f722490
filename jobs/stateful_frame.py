"""The stateful part of a stream (P6): rows, a watermark, dedupe, windows; and by what a record is late.

What comes out of it is consumed in full in every batch, whatever a sink needs of it: a partial reading leaves state uncommitted.
"""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructField, StructType

from include.contract.catalog import Stream
from include.contract.stream_spec import WINDOW_END, WINDOW_START, Aggregate, Dedupe, StreamSpec
from include.tidemarks.recorded import PastRange
from jobs.batch_of_record import with_batch
from jobs.unfit import watermark_of

PLACE = ("_partition", "_offset")
SURVIVORS = "survivors"  # what is observed behind dedupe
MOST_PARTITIONS = 10_000  # of a topic; a histogram with a bin for each is a count of each
GOOD = "NOT _bad AND NOT _filtered"


def stateful_frame(rows: DataFrame, stream: Stream, past: Sequence[PastRange] = ()) -> DataFrame:
    """`rows`: of a stream of records. Out come the coordinates of those that dedupe lets pass, or results of windows.

    `past`: of a warm-up, the batches that it makes again as one. What was late in its own batch is in no state, and a copy that
    came in an earlier batch goes before one of a later batch.
    """
    spec, watermark = stream.spec, watermark_of(stream.spec)
    good = _as_it_came(rows.where(GOOD), spec, past) if past else rows.where(GOOD)
    marked = good.withWatermark(watermark.event_time, _interval(watermark.within))
    order = [*(["_batch"] if past else []), watermark.event_time, *PLACE]
    kept = first_copies(marked, spec.dedupe, order) if spec.dedupe else marked
    counted = kept.observe(SURVIVORS, F.expr(f"histogram_numeric(_partition, {MOST_PARTITIONS})").alias("partitions"))
    return results_of(counted, spec, spec.aggregate) if spec.aggregate else counted.select(*PLACE)


def output_mode(spec: StreamSpec) -> str:
    return "update" if spec.aggregate and spec.aggregate.emit == "updates" else "append"


def first_copies(rows: DataFrame, dedupe: Dedupe, order: Sequence[str]) -> DataFrame:
    """Dedupe lets the first copy pass that it meets. Unsorted that depends on how a shuffle is fetched: a batch that is run again
    could let another copy pass than the one that its sinks have, and count an event in two windows."""
    partitions = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 0)
    laid_out = rows.repartition(partitions, *dedupe.key)  # as dedupe would have them laid out: there is no second shuffle
    return laid_out.sortWithinPartitions(*order).dropDuplicatesWithinWatermark(dedupe.key)


def _as_it_came(rows: DataFrame, spec: StreamSpec, past: Sequence[PastRange]) -> DataFrame:
    known = with_batch(rows, past)
    return known.where(~is_late(spec, F.coalesce("_late_ms", F.lit(0))))


def is_late(spec: StreamSpec, late_ms: int | Column) -> Column:
    """As Spark judges it: at dedupe by the event time, at an aggregate by the end of the last window that the record is in."""
    event, limit = F.unix_micros(watermark_of(spec).event_time), F.lit(late_ms) * 1000
    if spec.dedupe is None and spec.aggregate is not None:
        return _last_end(event, spec.aggregate) <= limit
    return event <= limit


def late_groups(rows: DataFrame, spec: StreamSpec, aggregate: Aggregate, late_ms: int) -> int:
    """Keys and windows that are closed, among these rows: an aggregate without dedupe counts late ones so."""
    windows = rows.select(_window(watermark_of(spec).event_time, aggregate), *aggregate.key)
    closed = F.unix_micros("_window.end") <= F.lit(late_ms * 1000)
    return windows.where(closed).distinct().count()


def results_of(rows: DataFrame, spec: StreamSpec, aggregate: Aggregate) -> DataFrame:
    """Of a stream's rows; or, without any state, of all rows of a frame at once."""
    values = _values(aggregate, rows.schema)
    grouped = rows.groupBy(_window(watermark_of(spec).event_time, aggregate), *aggregate.key).agg(*values)
    ends = [F.col("_window.start").alias(WINDOW_START), F.col("_window.end").alias(WINDOW_END)]
    return grouped.select(*aggregate.key, *ends, *aggregate.values)


def _values(aggregate: Aggregate, rows: StructType) -> list[Column]:
    return [
        *(F.sum(name).alias(name) for name in aggregate.sum),
        *([F.count("*").alias(aggregate.count)] if aggregate.count else []),
        *(F.min(name).alias(f"{name}_min") for name in aggregate.min),
        *(F.max(name).alias(f"{name}_max") for name in aggregate.max),
        *(_average(rows[name]).alias(f"{name}_avg") for name in aggregate.avg),
    ]


def _average(field: StructField) -> Column:
    """Spark adds whole numbers up as doubles for it: beyond 2^53 its last digits depend on the order of the records."""
    if isinstance(field.dataType, DecimalType):
        return F.avg(field.name)
    return F.try_divide(F.sum(F.col(field.name).cast("decimal(20,0)")).cast("double"), F.count(field.name))


def _window(event_time: str, aggregate: Aggregate) -> Column:
    return F.window(event_time, _interval(aggregate.window), _interval(aggregate.slide or aggregate.window)).alias("_window")


def _last_end(event_micros: Column, aggregate: Aggregate) -> Column:
    slide = F.lit(_micros(aggregate.slide or aggregate.window))
    return event_micros - F.pmod(event_micros, slide) + F.lit(_micros(aggregate.window))


def _interval(length: timedelta) -> str:
    return f"{_micros(length) // 1000} milliseconds"


def _micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
