"""Records on their way into totals. Spark adds them up per key, so a row for each key travels and not one for each record; where
the database has to judge every record by itself, each travels as a total of its own. Both are staged in the same columns.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from include.contract.stream_spec import PostgresTotals
from jobs.postgres.text_forms import PLACES

RECORDS = "_records"  # how many of them a staged row stands for
WHOLE = "decimal(20,0)"  # every bigint; Spark adds ten digits for the sum
MOST_DIGITS = 28  # of a decimal that Spark adds up without fear of an overflow
FIRST_YEAR, LAST_YEAR = 1, 5_874_897  # as Spark writes years, and PostgreSQL reads dates


def staged_totals(sink: PostgresTotals) -> tuple[str, ...]:
    """By the names of the table's columns; what a sink may count is the last of them."""
    return (*sink.key, *sink.sum, *(f"{name}_min" for name in sink.min), *(f"{name}_max" for name in sink.max), RECORDS)


def needed_for_totals(sink: PostgresTotals) -> tuple[str, ...]:
    """Of a record's row."""
    return tuple(dict.fromkeys([*sink.key, *sink.sum, *sink.min, *sink.max]))


def can_be_added_up(sink: PostgresTotals, shape: T.StructType) -> bool:
    """Not where Spark might join keys that PostgreSQL tells apart, where a sum might overflow, or where a text that PostgreSQL
    does not have would hide: it may be neither the least nor the greatest."""
    keys, summed, compared = ([shape[name].dataType for name in names] for names in (sink.key, sink.sum, [*sink.min, *sink.max]))
    return (
        all(isinstance(kind, T.AtomicType) and not _is_collated(kind) for kind in keys)
        and all(kind.precision <= MOST_DIGITS for kind in summed if isinstance(kind, T.DecimalType))
        and not any(isinstance(kind, T.StringType) for kind in compared)
    )


def _is_collated(kind: T.DataType) -> bool:
    return isinstance(kind, T.StringType) and not kind.isUTF8BinaryCollation()


def each_by_itself(rows: DataFrame, sink: PostgresTotals) -> DataFrame:
    renamed = [F.col(name).alias(f"{name}_{which}") for which in ("min", "max") for name in getattr(sink, which)]
    return rows.select(*PLACES, *sink.key, *sink.sum, *renamed, F.lit(1).alias(RECORDS))


def added_up(rows: DataFrame, sink: PostgresTotals) -> DataFrame:
    """Without coordinates, for a total has none. A time that PostgreSQL does not know must not hide among others of its key."""
    times = [name for name in (*sink.min, *sink.max) if isinstance(rows.schema[name].dataType, (T.DateType, T.TimestampType))]
    apart = [_beside_the_calendar(name).alias(f"_apart_{name}") for name in dict.fromkeys(times)]
    totals = [
        *(_sum(name, rows.schema[name].dataType) for name in sink.sum),
        *(F.min(name).alias(f"{name}_min") for name in sink.min),
        *(F.max(name).alias(f"{name}_max") for name in sink.max),
        F.count("*").alias(RECORDS),
    ]
    nowhere = [F.lit(None).cast(kind).alias(name) for name, kind in zip(PLACES, ("int", "bigint"), strict=True)]
    return rows.groupBy(*sink.key, *apart).agg(*totals).select(*nowhere, *staged_totals(sink))


def _beside_the_calendar(name: str) -> Column:
    """-1 before the years that PostgreSQL has, 1 after them."""
    year = F.year(name)
    return F.when(year < FIRST_YEAR, -1).when(year > LAST_YEAR, 1).otherwise(0)


def _sum(name: str, kind: T.DataType) -> Column:
    value = F.col(name) if isinstance(kind, T.DecimalType) else F.col(name).cast(WHOLE)
    return F.sum(value).alias(name)
