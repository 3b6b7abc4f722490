"""The columns that a stream's rows have, from Spark's analysis of the stream file; and its proof that rows stay rows.

The contract has checked the expressions by parsing them. Here Spark itself says whether each record becomes exactly one row,
and the same row each time.
"""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, FloatType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import OWN_COLUMNS
from jobs.decode import decode
from jobs.stateful_frame import results_of
from jobs.transform import transform

RECORD = "_topic string, _partition int, _offset bigint, _kafka_timestamp timestamp, _key binary, value binary"
OWN_TYPES = (StringType(), IntegerType(), IntegerType(), LongType(), TimestampType(), LongType(), LongType())
ROW_BY_ROW = {"Project", "LogicalRDD", "LocalRelation"}


class ExpressionRefused(StreamFailure):
    """Spark reads the stream file's expressions otherwise than row by row, or not at all."""

    exit_class = ExitClass.CONFIGURATION


def row_shape(spark: SparkSession, stream: Stream) -> StructType:
    """Our own columns first, so that Delta keeps statistics of offsets however many columns follow."""
    try:
        rows = transform(decode(spark.createDataFrame([], RECORD), stream), stream)
    except AnalysisException as error:
        raise _refused(stream, f"Spark cannot read it: {str(error).splitlines()[0]}") from error
    _check_plan(rows, stream)
    own = [StructField(name, kind) for name, kind in zip(OWN_COLUMNS, OWN_TYPES, strict=True)]
    fields = [StructField(field.name, field.dataType) for field in rows.schema if not field.name.startswith("_")]
    return StructType([*own, *fields])


def sink_shape(spark: SparkSession, stream: Stream) -> StructType:
    """What sinks get: rows; or, of an aggregate, its results."""
    shape = row_shape(spark, stream)
    if (watermark := stream.spec.watermark) is None:
        return shape
    if not isinstance(event_time := shape[watermark.event_time].dataType, TimestampType):
        raise _refused(stream, f"event_time {watermark.event_time} is {event_time.simpleString()} and no timestamp")
    if stream.spec.aggregate is None:
        return shape
    results = results_of(spark.createDataFrame([], shape), stream.spec, stream.spec.aggregate).schema
    if inexact := [name for name in (*stream.spec.aggregate.sum, *stream.spec.aggregate.avg) if _is_inexact(shape, name)]:
        raise _refused(stream, f"the sum of {', '.join(inexact)} would depend on the order of the records: make it a decimal")
    own = [shape[name] for name in OWN_COLUMNS]
    return StructType([*own, *(StructField(field.name, field.dataType) for field in results)])


def _is_inexact(shape: StructType, name: str) -> bool:
    return isinstance(shape[name].dataType, FloatType | DoubleType)


def _check_plan(rows: DataFrame, stream: Stream) -> None:
    plan: Any = rows._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        raise _refused(stream, "an expression may give another answer when a record is replayed")
    nodes = {plan.nodeName()}
    while plan.children().size():
        plan = plan.children().head()
        nodes.add(plan.nodeName())
    if nodes - ROW_BY_ROW:
        raise _refused(stream, f"an expression is not row by row ({', '.join(sorted(nodes - ROW_BY_ROW))})")


def _refused(stream: Stream, why: str) -> ExpressionRefused:
    return ExpressionRefused(
        f"config/streams/{stream.name}.yaml: {why}.", state="Nothing was started.", next_step="Mend where or select in that file."
    )
