"""Which of the batches that a sink's log tells of had a record, and by which watermark it judged late ones (P6.2)."""

from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.tidemarks.recorded import PastRange

OF_BATCH = ("_batch", "_late_ms", "_forgotten_ms")
SPAN = 10_000  # offsets: a record is compared with the batches of its own span alone, however many there are
FRAME = "_partition int, _span bigint, _start bigint, _end bigint, _batch bigint, _late_ms bigint, _forgotten_ms bigint"


def with_batch(records: DataFrame, past: Iterable[PastRange]) -> DataFrame:
    """Adds which batch had a record, and its clock; NULL where no batch is known to have had it."""
    known = records.sparkSession.createDataFrame(list(_spans(past)), FRAME)
    is_of = (F.col("_offset") >= F.col("_start")) & (F.col("_offset") < F.col("_end"))
    joined = (
        records.withColumn("_span", F.expr(f"_offset div {SPAN}"))
        .alias("r")
        .join(
            F.broadcast(known.alias("k")),
            (F.col("r._partition") == F.col("k._partition")) & (F.col("r._span") == F.col("k._span")) & is_of,
            "left",
        )
    )
    return joined.select(*(F.col(f"r.{name}") for name in records.columns), *OF_BATCH)


def _spans(past: Iterable[PastRange]) -> Iterator[tuple[int | None, ...]]:
    for one in past:
        for span in range(one.start // SPAN, (one.end - 1) // SPAN + 1):
            yield one.partition, span, one.start, one.end, one.batch, one.late_ms, one.forgotten_ms
