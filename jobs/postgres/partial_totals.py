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


def staged_totals(sink: PostgresTotals) -> tuple[str, ...]:
    """By the names of the table's columns; what a sink may count is the last of them."""
    return (*sink.key, *sink.sum, *(f"{name}_min" for name in sink.min), *(f"{name}_max" for name in sink.max), RECORDS)


def needed_for_totals(sink: PostgresTotals) -> tuple[str, ...]:
    """Of a record's row."""
    return tuple(dict.fromkeys([*sink.key, *sink.sum, *sink.min, *sink.max]))


def can_be_added_up(sink: PostgresTotals, shape: T.StructType) -> bool:
    """Without a value that hides: a text that PostgreSQL does not have may be neither the least nor the greatest. (A time before
    the year 1 may hide. It is refused where it would become a total, which is all that the table holds of it.)"""
    summed, compared = ([shape[name].dataType for name in names] for names in (sink.sum, [*sink.min, *sink.max]))
    are_safe = all(kind.precision <= MOST_DIGITS for kind in summed if isinstance(kind, T.DecimalType))
    return are_safe and not any(isinstance(kind, T.StringType) for kind in compared)


def each_by_itself(rows: DataFrame, sink: PostgresTotals) -> DataFrame:
    renamed = [F.col(name).alias(f"{name}_{which}") for which in ("min", "max") for name in getattr(sink, which)]
    return rows.select(*PLACES, *sink.key, *sink.sum, *renamed, F.lit(1).alias(RECORDS))


def added_up(rows: DataFrame, sink: PostgresTotals) -> DataFrame:
    """Without coordinates, for a total has none."""
    totals = [
        *(_sum(name, rows.schema[name].dataType) for name in sink.sum),
        *(F.min(name).alias(f"{name}_min") for name in sink.min),
        *(F.max(name).alias(f"{name}_max") for name in sink.max),
        F.count("*").alias(RECORDS),
    ]
    nowhere = [F.lit(None).cast(kind).alias(name) for name, kind in zip(PLACES, ("int", "bigint"), strict=True)]
    return rows.groupBy(*sink.key).agg(*totals).select(*nowhere, *staged_totals(sink))


def _sum(name: str, kind: T.DataType) -> Column:
    value = F.col(name) if isinstance(kind, T.DecimalType) else F.col(name).cast(WHOLE)
    return F.sum(value).alias(name)
