"""What a record becomes in an output topic: no, one or many outputs, each with key and value, as one row of a frame."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.stream_spec import AS_JSON, KafkaOutput
from jobs.json_form import JSON_OPTIONS

OUTPUTS, TIME = "_outputs", "_time"


class OutputRefused(StreamFailure):
    """Columns of the stream cannot be the key or the value of a record."""

    exit_class = ExitClass.CONFIGURATION


def as_outputs(rows: DataFrame, settings: KafkaOutput, shape: StructType) -> DataFrame:
    """Coordinates, Kafka's time in milliseconds, and the outputs in their order."""
    own = [field.name for field in shape if not field.name.startswith("_")]
    outputs = outputs_of(settings, own).alias(OUTPUTS)
    return rows.select("_partition", "_offset", F.unix_millis("_kafka_timestamp").alias(TIME), outputs)


def outputs_of(settings: KafkaOutput, names: list[str]) -> Column:
    """An array of key and value. `names`: the stream's columns."""

    def output(element: Column | None) -> Column:
        columns = {name: element if name == settings.explode and element is not None else F.col(name) for name in names}
        key = columns[settings.key] if settings.key else F.lit(None)
        as_json = F.to_json(F.struct(*(column.alias(name) for name, column in columns.items())), JSON_OPTIONS)
        value = as_json if settings.value == AS_JSON else columns[settings.value]
        return F.struct(_as_bytes(key).alias("key"), _as_bytes(value).alias("value"))

    if settings.explode is None:
        return F.array(output(None))
    return F.coalesce(F.transform(settings.explode, output), F.array().cast("array<struct<key: binary, value: binary>>"))


def _as_bytes(column: Column) -> Column:
    """Text as UTF-8; bytes as they are, for Spark does not look at them when it calls them text."""
    return column.cast("string").cast("binary")


def check_outputs(settings: KafkaOutput, sink: str, shape: StructType) -> None:
    types: dict[str, DataType] = {field.name: field.dataType for field in shape}
    if settings.explode is not None:
        exploded = types[settings.explode]
        if not isinstance(exploded, ArrayType):
            raise _refused(sink, "explode", settings.explode, exploded, "no array")
        types[settings.explode] = exploded.elementType
    if settings.key is not None and isinstance(types[settings.key], (ArrayType, MapType, StructType)):
        raise _refused(sink, "key", settings.key, types[settings.key], "no single value")
    if settings.value != AS_JSON and not isinstance(types[settings.value], (StringType, BinaryType)):
        raise _refused(sink, "value", settings.value, types[settings.value], "neither text nor bytes")


def _refused(sink: str, what: str, column: str, kind: DataType, why: str) -> OutputRefused:
    return OutputRefused(
        f"sinks.{sink}.{what} is {column!r}, a column of type {kind.simpleString()}: that is {why}.",
        state="Nothing was started.",
        next_step="Name another column, or make one in select.",
    )
