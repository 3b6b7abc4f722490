"""The sides of a window of a table that holds the newest row of each key, as slim frames: key, order, place, a hash."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from include.contract.identity import DELETED
from include.contract.stream_spec import DeltaMerge
from include.control.window_contents import Segment
from jobs.key_order import as_one_value, has_no_key, is_delete, order_of
from jobs.key_spans import sent, spans, where_they_lie
from jobs.made_by import Group, Spec
from jobs.measuring import GOOD, REJECTED, Sides
from jobs.merge_comparison import OF_A_RECORD

OTHERWISE = "its rows were merged by another key or order than those before them or after them"


@dataclass(frozen=True)
class MergeSides:
    sides: Sides
    groups: list[Group]

    @property
    def settings(self) -> DeltaMerge:
        """Key and order are the same in all groups, see `merged_otherwise`."""
        return self._settings_of(self.groups[0])

    @property
    def segments(self) -> list[Segment]:
        return [one for group in self.groups for one in group.segments]

    def records(self) -> DataFrame:
        """Every record with its fate: one without a key is rejected."""
        return reduce(DataFrame.unionByName, [self._records(group) for group in self.groups])

    def _records(self, group: Group) -> DataFrame:
        settings = self._settings_of(group)
        epoch = F.lit(self.sides.window.epoch).cast("int")
        rows = self.sides.records(group.spec, group.segments).withColumns({"_topic_epoch": epoch, DELETED: is_delete(settings)})
        is_refused = (F.col("_fate") == GOOD) & F.expr(has_no_key(settings))
        fate = F.when(is_refused, REJECTED).otherwise(F.col("_fate")).alias("_fate")
        return rows.withColumn("_order", self._order()).select(
            *settings.key, *OF_A_RECORD, fate, _hash(group.spec).alias("_hash")
        )

    def there(self, newest: DataFrame) -> DataFrame:
        """The table's rows that have one of these keys, or the coordinates of a record of the window."""
        key, unique = self.settings.key, self.sides.stream.spec.reconcile.unique
        found = newest.agg(F.count("*").alias("_keys"), *spans(self.settings)).first() or Row(_keys=0)
        in_window = self.sides.is_of(self.segments)
        near = reduce(and_, where_they_lie(self.settings, newest, found), F.lit(True)) if found["_keys"] else F.lit(False)
        rows = self.sides.table().where(in_window | near).withColumn("_order", self._order())
        declared = F.xxhash64(*unique) if unique else F.lit(0).cast("bigint")
        is_in_window = F.coalesce(in_window, F.lit(False))
        slim = rows.select(
            *key, *OF_A_RECORD, is_in_window.alias("_in_window"), self._hash_there().alias("_hash"), declared.alias("_declared")
        )
        wanted = newest.select(*key, F.lit(True).alias("_is_wanted"))
        return slim.join(sent(wanted, found["_keys"]), key, "left").where("_in_window OR _is_wanted").drop("_is_wanted")

    def _order(self) -> Column:
        return as_one_value(order_of(self.settings))

    def _hash_there(self) -> Column:
        """Of rows of the window, each by the spec that made it."""
        by_spec = [F.when(self.sides.is_of(group.segments), _hash(group.spec)) for group in self.groups]
        return F.coalesce(*by_spec)

    def _settings_of(self, group: Group) -> DeltaMerge:
        """Another column may have told of deletes."""
        return merged_by(group.spec, self.sides.window.sink)


def merged_otherwise(groups: Iterable[Group], sink: str) -> str | None:
    """Why it cannot be told which row of a key is the newest; None if all specs agree on it."""
    specs = [group.spec.stream.spec.sinks.get(sink) for group in groups]
    ways = {(tuple(one.key), one.order) if isinstance(one, DeltaMerge) else None for one in specs}
    return OTHERWISE if len(ways) > 1 or None in ways else None


def merged_by(spec: Spec, sink: str) -> DeltaMerge:
    settings = spec.stream.spec.sinks[sink]
    assert isinstance(settings, DeltaMerge)  # noqa: S101 - see merged_otherwise
    return settings


def _hash(spec: Spec) -> Column:
    return F.xxhash64(spec.row_hash, F.col(DELETED))
