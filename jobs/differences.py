"""Which records differ between Kafka, the table and the quarantine, per kind and partition; and how they are told."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from include.control.window_contents import Counted, Difference, Segment
from jobs.made_by import Group, Spec
from jobs.measuring import BAD, DUPLICATE, GOOD, PLACE, REJECTED, Sides, within

LOST, TWICE, CHANGED, STRANGE = "lost", "delivered twice", "changed since they were delivered", "in the table but not in Kafka"
STALE, RESURRECTED = "older in the table than in Kafka", "deleted in Kafka but alive in the table"
COPIED = "delivered twice, as copies of others,"
NOT_KEPT, KEPT_TWICE, NOT_BAD = "bad but not in quarantine", "quarantined twice", "in quarantine but not bad"
NOT_REJECTED, REJECTED_TWICE, HELD = "without a key but not rejected", "rejected twice", "rejected but not without a key"
NAMED = 1_000  # records whose offsets are told; the counts are of all


def is_even(counted: Counted) -> bool:
    rows = (counted.kafka_good, counted.kafka_checksum, counted.kafka_good)
    kept = counted.kafka_bad == counted.quarantine_rows == counted.quarantine_coordinates
    return rows == (counted.table_rows, counted.table_checksum, counted.table_coordinates) and kept


def find_differences(
    sides: Sides, spec: Spec, segments: list[Segment], rows: DataFrame, records: DataFrame, *, compacted: bool
) -> list[Difference]:
    """In a compacted topic what Kafka has not, it may have deleted: that tells nothing (P7.3)."""
    mine = within(segments)
    there = rows.where(mine).groupBy(*PLACE).agg(F.count("*").alias("n"), F.min("hash").alias("low"), F.max("hash").alias("high"))
    good = records.where(mine & (F.col("_fate") == GOOD)).select(*PLACE, "hash")
    of_quarantine = quarantine_differences(sides, [Group(spec, segments)], records.where(mine))
    of_rows = _kinds(good, there, (LOST, TWICE, STRANGE))
    if sides.duplicates is not None:
        of_rows = _with_copies(of_rows, records.where(F.col("_fate") == DUPLICATE))
    named = of_rows.union(of_quarantine)
    if compacted:
        named = named.where(~F.col("kind").isin(STRANGE, NOT_BAD))

    def who(kind: str, rows: list[Row]) -> str:
        return sides.key_of(spec, *rows[0][:2]) if kind in (LOST, TWICE, CHANGED, COPIED) else ""

    return told(named, who)


def tell_values(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Of one key: each value that is another in the table than Kafka's records give."""
    differ = (
        f"{name} is {there[name]}, but {value} by Kafka's records" for name, value in wanted.items() if there[name] != value
    )
    return "; ".join(differ)


def _with_copies(named: DataFrame, duplicates: DataFrame) -> DataFrame:
    """What is there though it was a duplicate."""
    joined = named.join(duplicates.select(*PLACE).withColumn("_again", F.lit(True)), PLACE, "left")
    is_copy = (F.col("kind") == STRANGE) & F.col("_again")
    return joined.select(*PLACE, F.when(is_copy, COPIED).otherwise(F.col("kind")).alias("kind"))


def quarantine_differences(sides: Sides, groups: list[Group], records: DataFrame) -> DataFrame:
    bad = records.where(F.col("_fate") == BAD).select(*PLACE, F.lit(0).alias("hash"))
    return _kinds(bad, _kept(sides.quarantined(groups)), (NOT_KEPT, KEPT_TWICE, NOT_BAD))


def reject_differences(sides: Sides, groups: list[Group], records: DataFrame) -> DataFrame:
    refused = records.where(F.col("_fate") == REJECTED).select(*PLACE, F.lit(0).alias("hash"))
    return _kinds(refused, _kept(sides.rejected(groups)), (NOT_REJECTED, REJECTED_TWICE, HELD))


def _kept(aside: DataFrame) -> DataFrame:
    return aside.groupBy(*PLACE).agg(F.count("*").alias("n"), F.lit(0).alias("low"), F.lit(0).alias("high"))


def _kinds(wanted: DataFrame, there: DataFrame, kinds: tuple[str, str, str]) -> DataFrame:
    missing, twice, strange = kinds
    joined = wanted.join(there, PLACE, "full_outer")
    differs = (F.col("low") != F.col("hash")) | (F.col("high") != F.col("hash"))
    kind: Column = (
        F.when(F.col("n").isNull(), missing)
        .when(F.col("hash").isNull(), strange)
        .when(F.col("n") > 1, twice)
        .when(differs, CHANGED)
    )
    return joined.select(*PLACE, kind.alias("kind")).where("kind IS NOT NULL")


def told(named: DataFrame, who: Callable[[str, list[Row]], str]) -> list[Difference]:
    """`who`: the keys of the records of one kind in one partition, of which there are a thousand at most."""
    counts = {(row["kind"], row["_partition"]): row["count"] for row in named.groupBy("kind", "_partition").count().collect()}
    rows: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in named.orderBy(*PLACE).limit(NAMED).collect():
        rows[row["kind"], row["_partition"]].append(row)
    return [
        Difference(
            kind=kind,
            partition=partition,
            records=count,
            ranges=tuple(ranges_of([row["_offset"] for row in rows[kind, partition]])),
            example=who(kind, rows[kind, partition]) if rows[kind, partition] else "",
        )
        for (kind, partition), count in sorted(counts.items())
    ]


def ranges_of(offsets: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return ranges
