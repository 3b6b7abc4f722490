"""Compares a table that holds the newest row of each key with Kafka's records of a window, as frames: key by key, and place by
place. A later record of a key may stand in its place, an earlier one may not (P7.1).
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from include.contract.identity import DELETED
from jobs.differences import CHANGED, COPIED, LOST, RESURRECTED, STALE, STRANGE, TWICE
from jobs.measuring import DUPLICATE, GOOD, PLACE

SHOWN = 100  # characters of a value of a key
OF_A_RECORD = ("_order", "_topic_epoch", *PLACE, "_kafka_timestamp", DELETED)


def newest_of(records: DataFrame, key: Sequence[str]) -> DataFrame:
    """One for each key."""
    grouped = records.groupBy(*key).agg(F.max_by(F.struct(*OF_A_RECORD), F.col("_order")).alias("_newest"))
    return grouped.select(*key, "_newest.*")


def compare_keys(newest: DataFrame, there: DataFrame, key: Sequence[str]) -> DataFrame:
    """Keys that are not as Kafka's newest record of them says, at the place of that record. `_there`: what stands instead."""
    row = F.struct(*OF_A_RECORD)
    standing = there.groupBy(*key).agg(F.count("*").alias("_rows"), F.max_by(row, F.col("_order")).alias("_there"))
    joined = newest.join(standing, list(key), "left")
    is_same = reduce(and_, [F.col(f"_there.{name}") == F.col(name) for name in ("_topic_epoch", *PLACE)])
    is_older = ~is_same & (F.col("_there._order") < F.col("_order"))
    came_back = is_older & F.col(DELETED) & ~F.col(f"_there.{DELETED}")
    kind = F.when(F.col("_there").isNull(), LOST).when(came_back, RESURRECTED).when(is_older, STALE)
    kinds = F.array_compact(F.array(kind, F.when(F.col("_rows") > 1, TWICE)))
    return joined.select(*key, *PLACE, "_there", F.explode(kinds).alias("kind"))


def compare_places(there: DataFrame, records: DataFrame, key: Sequence[str], *, compacted: bool) -> DataFrame:
    """Rows that say they are records of the window, but are not as Kafka has them. In a compacted topic a record that Kafka has
    no more tells nothing (P7.3)."""
    in_kafka = records.select(*PLACE, "_fate", F.col("_hash").alias("_wanted"), F.struct(*key).alias("_key"))
    joined = there.where("_in_window").join(in_kafka, PLACE, "left")
    is_another = (F.col("_fate") != GOOD) | ~F.struct(*key).eqNullSafe(F.col("_key"))
    unknown = F.lit(None) if compacted else F.lit(STRANGE)
    kind = (
        F.when(F.col("_fate").isNull(), unknown)
        .when(F.col("_fate") == DUPLICATE, COPIED)
        .when(is_another, STRANGE)
        .when(~F.col("_hash").eqNullSafe(F.col("_wanted")), CHANGED)
    )
    return joined.select(*key, *PLACE, kind.alias("kind")).where("kind IS NOT NULL")


def with_key_as_text(named: DataFrame, key: Sequence[str]) -> DataFrame:
    kinds = {field.name: field.dataType for field in named.schema}
    texts = [F.concat(F.lit(f"{name} "), _text(name, isinstance(kinds[name], BinaryType))) for name in key]
    return named.select(*PLACE, "kind", F.concat_ws(", ", *texts).alias("_who"))


def _text(name: str, is_binary: bool) -> Column:
    text = F.hex(name) if is_binary else F.col(name).cast("string")
    return F.coalesce(F.substring(text, 1, SHOWN), F.lit("NULL"))
