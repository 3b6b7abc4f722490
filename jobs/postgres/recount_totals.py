"""Recounts totals: a total holds records of every window, so all of them are added up anew from Kafka, up to the tidemark that
the database has at the very snapshot at which its totals are read (P7.1). The sink's own ledger says which offsets by which spec.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from psycopg2.extensions import cursor as Cursor
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.stream_spec import PostgresTotals
from include.control.database import ControlDatabase
from include.control.window_contents import Segment
from include.topics.topic import TopicState
from jobs.differences import tell_values
from jobs.made_by import Group, Spec, find_spec
from jobs.measuring import GOOD, PLACE, Sides, outside, within
from jobs.postgres.columns_there import columns_there
from jobs.postgres.comparison import count_rejects
from jobs.postgres.partial_totals import needed_for_totals
from jobs.postgres.recount import PostgresCounting
from jobs.postgres.snapshot import snapshot_of
from jobs.postgres.values_by_key import TOLD, Differing, ValuesByKey
from jobs.postgres.wanted_table import wanted_table

# The ledger's lines, joined where one spec made the next one's rows too.
DELIVERED = """
WITH line AS (
    SELECT (l->>'partition')::int AS partition, (l->>'start')::bigint AS start, (l->>'end')::bigint AS ending,
        n->>'spec_hash' AS spec_hash
    FROM (SELECT note::jsonb AS n FROM tidemark.sink_commit WHERE target = %(target)s) c, jsonb_array_elements(n->'ledger') l
    WHERE n->>'kind' = 'batch' AND (n->'tidemark'->>'epoch')::int = %(epoch)s
), island AS (
    SELECT *, count(*) FILTER (WHERE is_other) OVER (PARTITION BY partition ORDER BY start) AS number FROM (
        SELECT *, spec_hash IS DISTINCT FROM lag(spec_hash) OVER (PARTITION BY partition ORDER BY start) AS is_other FROM line
    ) l
)
SELECT partition, min(start), max(ending), spec_hash FROM island GROUP BY partition, number, spec_hash ORDER BY 1, 2
"""
OTHER_EPOCHS = """
SELECT count(*) FROM tidemark.sink_commit WHERE target = %(target)s AND note::jsonb->>'kind' = 'batch'
    AND (note::jsonb->'tidemark'->>'epoch')::int <> %(epoch)s
"""


class TotalsCounting(PostgresCounting):
    def __init__(self, sides: Sides, settings: PostgresTotals, *, compacted: bool) -> None:
        super().__init__(sides, compacted=compacted)
        self._settings = settings
        self._kept: list[tuple[Group, DataFrame]] = []  # the window's records, which are read once

    def count(self, group: Group) -> None:
        """The window's own records: what was read, and what became of it."""
        records = self._records(group.spec, group.segments).persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append((group, records))
        with snapshot_of(self.where) as cursor:
            rejects = count_rejects(cursor, self.target, self.sides.window.epoch, group.segments)
        self.add_group(group, records, rejects)

    def finish(self, state: TopicState | None, control: ControlDatabase) -> Mapping[int, str]:
        """Compares the totals."""
        try:
            return self._count_all(state, control)
        finally:
            for _, records in self._kept:
                records.unpersist()

    def _count_all(self, state: TopicState | None, control: ControlDatabase) -> dict[int, str]:
        with snapshot_of(self.where) as cursor:
            asked = {"target": self.target, "epoch": self.sides.window.epoch}
            cursor.execute(DELIVERED, asked)
            segments = [
                Segment(partition=number, start=start, end=end, spec_hash=made_by)
                for number, start, end, made_by in cursor.fetchall()
            ]
            cursor.execute(OTHER_EPOCHS, asked)
            (others,) = cursor.fetchone() or (0,)
            if not segments:
                return {}
            hashes = {one.spec_hash for one in segments}
            specs = {made_by: find_spec(self.sides.spark, control, self.sides.stream, made_by) for made_by in hashes}
            unknown = self._out_of_reach(state, segments, others) or self._added_otherwise(segments, specs)
            return unknown or self._compare(cursor, segments, {made_by: spec for made_by, spec in specs.items() if spec})

    def _added_otherwise(self, segments: list[Segment], specs: Mapping[str, Spec | None]) -> dict[int, str]:
        """By a file that is not kept, or that kept other totals."""
        found: dict[int, str] = {}
        for one in segments:
            spec = specs[one.spec_hash]
            if spec is None:
                found[one.partition] = f"spec {one.spec_hash}, which added it up, is not kept"
            elif spec.stream.spec.sinks.get(self.sides.window.sink) != self._settings:
                found[one.partition] = f"spec {one.spec_hash} added up other totals than the file does now"
        return found

    def _out_of_reach(self, state: TopicState | None, segments: list[Segment], other_epochs: int) -> dict[int, str]:
        if state is None or state.topic_id != self.sides.window.topic_id or other_epochs:
            return {one.partition: "the totals hold records of a topic that is gone" for one in segments}
        if self.compacted:
            return {
                one.partition: "the topic is compacted: Kafka does not have every record that was added up" for one in segments
            }
        first = {one.partition: min(each.start for each in segments if each.partition == one.partition) for one in segments}
        return {
            number: f"Kafka begins at {state.earliest[number]:,}, the totals at {start:,}"
            for number, start in first.items()
            if state.earliest.get(number, 0) > start
        }

    def _compare(self, cursor: Cursor, segments: list[Segment], specs: dict[str, Spec]) -> dict[int, str]:
        newest = next(iter(specs.values()))
        wanted = wanted_table(self.place, self._settings, newest.shape)
        there = columns_there(cursor, wanted)
        if missing := [column.name for column in wanted.columns if column.name not in there]:
            self.findings.append(f"{self.place} has no column {', '.join(missing)}")
            return {}
        others = outside(segments, [one for group, _ in self._kept for one in group.segments])
        records = [
            *(kept.where(within(segments)) for _, kept in self._kept),
            *(
                self._records(spec, mine)
                for made_by, spec in specs.items()
                if (mine := [one for one in others if one.spec_hash == made_by])
            ),
        ]
        good = reduce(DataFrame.unionByName, records).where(F.col("_fate") == GOOD)
        return self._judge(ValuesByKey(cursor, wanted.name, self._settings.key, self._settings.totals, there), good)

    def _judge(self, totals: ValuesByKey, good: DataFrame) -> dict[int, str]:
        """Returns what could not be judged after all."""
        accepted = good.join(F.broadcast(self._rejected(totals.cursor)), PLACE, "left_anti")
        self.tell_differing(totals, accepted, good.select(*self._settings.key).limit(0))
        return {}

    def tell_differing(self, totals: ValuesByKey, accepted: DataFrame, doubtful: DataFrame) -> None:
        first, count = totals.find_differing(self._add_up(accepted), doubtful)
        self.findings += map(_sentence, first)
        if count > TOLD:
            self.findings.append(f"{count:,} keys of {self.place} differ in all")

    def _records(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        return self.sides.records(spec, segments).select(*self._columns(spec))

    def _columns(self, spec: Spec) -> list[Any]:
        return [*PLACE, "_kafka_timestamp", "_fate", *needed_for_totals(self._settings)]

    def _rejected(self, cursor: Cursor) -> DataFrame:
        cursor.execute(
            'SELECT partition, "offset" FROM tidemark.reject WHERE target = %s AND topic_epoch = %s',
            [self.target, self.sides.window.epoch],
        )
        return self.sides.spark.createDataFrame(cursor.fetchall(), "_partition int, _offset bigint")

    def _add_up(self, rows: DataFrame) -> DataFrame:
        """Record by record, and not as the sink adds up, batch by batch and then in the database, which is under judgement."""
        sink = self._settings
        totals = [
            *(F.sum(name).alias(name) for name in sink.sum),
            *([F.count("*").alias(sink.count)] if sink.count else []),
            *(F.min(name).alias(f"{name}_min") for name in sink.min),
            *(F.max(name).alias(f"{name}_max") for name in sink.max),
        ]
        return rows.groupBy(*sink.key).agg(*totals)


def _sentence(one: Differing) -> str:
    who = ", ".join(f"{name} {value}" for name, value in one.key.items())
    if one.there is None:
        return f"the totals of {who} are lost"
    if one.wanted is None:
        return f"there are totals of {who}, of whom Kafka has no record"
    return f"the totals of {who} differ: {tell_values(one.there, one.wanted)}"
