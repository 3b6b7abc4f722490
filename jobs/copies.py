"""Copies of a record in a deduped stream, for reconciliation: which of them dedupe let pass, told by the recorded batches.

A state remembers a record that passed for as long as the watermark is less than `within` above it: until then every copy is a
duplicate. Of copies in one batch the earliest event passes (`stateful_frame.first_copies`).
"""

from datetime import timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.measuring import DUPLICATE, GOOD, PLACE

OF_A_COPY = ("_copy_of", "_at", "_batch", *PLACE)


def with_duplicates(records: DataFrame, delivered: DataFrame, within: timedelta) -> DataFrame:
    """A good record that is not there is a duplicate if a copy of it is. Of several of which none is there, one is lost."""
    missing = records.where(F.col("_fate") == GOOD).join(delivered.select(*PLACE), PLACE, "left_anti")
    explained = _remembered(missing, delivered, within)
    unexplained = missing.join(explained, PLACE, "left_anti")
    first = unexplained.groupBy("_copy_of").agg(F.min_by(F.struct(*OF_A_COPY[1:]), F.struct("_batch", *PLACE)).alias("_first"))
    duplicates = explained.union(_remembered(unexplained, first.select("_copy_of", "_first.*"), within)).distinct()
    joined = records.join(duplicates.withColumn("_explained", F.lit(True)), PLACE, "left")
    fate = F.when(F.col("_explained"), DUPLICATE).otherwise(F.col("_fate"))
    return joined.withColumn("_fate", fate).drop("_explained")


def delivered_again(mine: DataFrame, delivered: DataFrame, within: timedelta) -> DataFrame:
    """The places of those that passed though the state remembered a copy; what it was allowed to forget does not count."""
    is_known = F.col("c._at") > F.coalesce(F.col("r._forgotten_ms") * 1000, F.lit(-(2**63)))
    came_before = F.struct("c._batch", *(f"c.{name}" for name in PLACE)) < F.struct("r._batch", *(f"r.{name}" for name in PLACE))
    return _remembered(mine, delivered, within, is_known & came_before)


def with_choice(good: DataFrame, within: timedelta, certain_from: int = 0, forgotten_ms: int | None = None) -> DataFrame:
    """Adds `_passes` to the first of the copies of each record, and `_doubtful` to a later one of which it cannot be told whether
    it has passed too: it and those before it lie further apart than `within`, or they began before what is known or up to what
    was forgotten. What came after a copy decides nothing about it."""
    in_order = Window.partitionBy("_copy_of").orderBy("_batch", "_at", *PLACE)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    lowest, highest = F.min("_at").over(so_far), F.max("_at").over(so_far)
    is_doubtful = (
        (highest - lowest > F.lit(micros(within)))
        | (F.min("_batch").over(so_far) < F.lit(certain_from))
        | (lowest <= F.lit(forgotten_ms * 1000 if forgotten_ms is not None else -(2**63)))
    )
    is_first = F.row_number().over(in_order) == 1
    return good.withColumns({"_passes": is_first, "_doubtful": ~is_first & is_doubtful})


def _remembered(records: DataFrame, copies: DataFrame, within: timedelta, more: Column | None = None) -> DataFrame:
    """The places of records of which a copy was in the state when they came."""
    is_another = F.struct(*(f"c.{name}" for name in PLACE)) != F.struct(*(f"r.{name}" for name in PLACE))
    in_state = F.col("c._at") + F.lit(micros(within)) > F.col("r._late_ms") * 1000
    condition = (F.col("r._copy_of") == F.col("c._copy_of")) & (F.col("c._batch") <= F.col("r._batch")) & is_another & in_state
    joined = records.alias("r").join(copies.alias("c"), condition if more is None else condition & more, "left_semi")
    return joined.select(*PLACE)


def micros(length: timedelta) -> int:
    return length // timedelta(microseconds=1)
