"""Compares the results that Kafka's records give with those of a table: key by key and window by window, every value."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from include.contract.stream_spec import WINDOW_END, WINDOW_START, Aggregate, StreamSpec
from jobs.differences import CHANGED, LOST, STRANGE, TWICE, tell_values
from jobs.stateful_frame import results_of

TOLD = 5  # of each kind


@dataclass(frozen=True)
class Results:
    """`doubtful`: keys and windows that hold a record of which it cannot be told whether it counts: they are not compared."""

    expected: DataFrame
    doubtful: DataFrame

    @classmethod
    def of(cls, chosen: DataFrame, spec: StreamSpec, aggregate: Aggregate, after: datetime, closed_ms: int) -> "Results":
        begins_after = F.col(WINDOW_START) > F.lit(after)
        expected = results_of(chosen.where("_passes"), spec, aggregate).where(begins_after)
        if aggregate.emit == "final":
            expected = expected.where(F.unix_micros(WINDOW_END) <= F.lit(closed_ms * 1000))
        unclear = F.col("_doubtful") | _came_in_part(spec, aggregate)
        doubtful = results_of(chosen.where(unclear), spec, aggregate).where(begins_after)
        return cls(expected, doubtful.select(*aggregate.key, WINDOW_START))


def _came_in_part(spec: StreamSpec, aggregate: Aggregate) -> Column:
    """Without dedupe a record counts in those of its windows that are open: where they overlap, some may be closed."""
    if spec.dedupe is not None or aggregate.slide is None:
        return F.lit(False)
    return F.col("_at") <= F.coalesce("_late_ms", F.lit(0)) * 1000


def compare_results(results: Results, there: DataFrame, aggregate: Aggregate) -> list[str]:
    """A sentence for each of the first of every kind, and how many there are if there are more."""
    who = [*aggregate.key, WINDOW_START]
    values = F.struct(WINDOW_END, *aggregate.values)
    wanted = results.expected.select(*who, values.alias("_wanted"))
    standing = there.groupBy(*who).agg(F.count("*").alias("_rows"), F.min(values).alias("_there"))
    joined = _joined(wanted, standing, who)
    kind = (
        F.when(F.col("_rows").isNull(), LOST)
        .when(F.col("_wanted").isNull(), STRANGE)
        .when(F.col("_rows") > 1, TWICE)
        .when(~F.col("_wanted").eqNullSafe(F.col("_there")), CHANGED)
    )
    unclear = results.doubtful.distinct()
    differing = joined.join(unclear, who, "left_anti").withColumn("_kind", kind).where("_kind IS NOT NULL").persist()
    try:
        counts = {row["_kind"]: row["count"] for row in differing.groupBy("_kind").count().collect()}
        return [
            sentence
            for one, count in sorted(counts.items())
            for sentence in _sentences(one, count, differing.where(F.col("_kind") == one).orderBy(*who).take(TOLD), who)
        ]
    finally:
        differing.unpersist()


def _joined(wanted: DataFrame, standing: DataFrame, who: list[str]) -> DataFrame:
    """A key that somebody has made NULL is equal to itself."""
    same = reduce(and_, [F.col(f"w.{name}").eqNullSafe(F.col(f"s.{name}")) for name in who])
    both = wanted.alias("w").join(standing.alias("s"), same, "full_outer")
    return both.select(*(F.coalesce(f"w.{name}", f"s.{name}").alias(name) for name in who), "_wanted", "_rows", "_there")


def _sentences(kind: str, count: int, rows: Iterable[Row], who: list[str]) -> list[str]:
    told = [sentence(kind, {name: row[name] for name in who}, _as_dict(row["_there"]), _as_dict(row["_wanted"])) for row in rows]
    return told if count <= TOLD else [*told, f"{count:,} windows of event time in all are {kind}"]


def _as_dict(values: Row | None) -> dict[str, Any]:
    return values.asDict() if values else {}


def sentence(kind: str, who: Mapping[str, Any], there: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """`there`, `wanted`: the values of one window."""
    window = f"the window of {', '.join(f'{name} {value}' for name, value in who.items())}"
    if kind != CHANGED:
        return f"{window} is {kind}"
    return f"{window} has changed since it was delivered: {tell_values(there, wanted)}"
