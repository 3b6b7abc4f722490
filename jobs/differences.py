"""Which records differ between Kafka, the table and the quarantine: asked only where the counts of a partition do."""

from collections import defaultdict

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.control.window_contents import Counted, Difference, Segment
from jobs.measuring import BAD, GOOD, Sides, Spec, within

LOST, TWICE, CHANGED, STRANGE = "lost", "delivered twice", "changed since they were delivered", "in the table but not in Kafka"
NOT_KEPT, KEPT_TWICE, NOT_BAD = "bad but not in quarantine", "quarantined twice", "in quarantine but not bad"
NAMED = 1_000  # records whose offsets are told; the counts are of all
PLACE = ["_partition", "_offset"]


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
    good = records.where(mine & (F.col("fate") == GOOD)).select(*PLACE, "hash")
    bad = records.where(mine & (F.col("fate") == BAD)).select(*PLACE, F.lit(0).alias("hash"))
    kept = sides.quarantined(segments).groupBy(*PLACE).agg(F.count("*").alias("n"), F.lit(0).alias("low"), F.lit(0).alias("high"))
    named = _kinds(good, there, (LOST, TWICE, STRANGE)).union(_kinds(bad, kept, (NOT_KEPT, KEPT_TWICE, NOT_BAD)))
    if compacted:
        named = named.where(~F.col("kind").isin(STRANGE, NOT_BAD))
    return _told(sides, spec, named)


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


def _told(sides: Sides, spec: Spec, named: DataFrame) -> list[Difference]:
    counts = {(row["kind"], row["_partition"]): row["count"] for row in named.groupBy("kind", "_partition").count().collect()}
    offsets = defaultdict(list)
    for row in named.orderBy(*PLACE).limit(NAMED).collect():
        offsets[row["kind"], row["_partition"]].append(row["_offset"])
    return [
        Difference(
            kind=kind,
            partition=partition,
            records=count,
            ranges=tuple(ranges_of(found := offsets[kind, partition])),
            example=sides.key_of(spec, partition, found[0]) if found and kind in (LOST, TWICE, CHANGED) else "",
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
