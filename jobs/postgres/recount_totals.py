"""Recounts totals: a total holds records of every window, so all of them are added up anew from Kafka, up to the tidemark that
the database has at the very snapshot at which its totals are read (P7.1). The sink's own ledger says which offsets by which spec.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import islice
from typing import Any

import pyarrow as pa
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composed, Identifier
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from include.contract.catalog import Stream
from include.contract.fingerprint import from_snapshot, spec_hash
from include.contract.stream_spec import PostgresTotals
from include.control.database import ControlDatabase
from include.control.generations import read_spec
from include.control.window_contents import Segment
from include.topics.topic import TopicState
from jobs.measuring import GOOD, Group, Sides, Spec
from jobs.postgres.comparison import count_rejects
from jobs.postgres.recount import PostgresCounting
from jobs.postgres.staging import Parts, as_csv
from jobs.postgres.table_check import columns_there
from jobs.postgres.text_forms import from_text, text_form
from jobs.postgres.wanted_table import WantedTable, wanted_table

PLACE = ["_partition", "_offset"]
TOLD = 5
ROWS_AT_ONCE = 10_000
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
    def __init__(self, sides: Sides, settings: PostgresTotals) -> None:
        super().__init__(sides)
        self._settings = settings

    def count(self, group: Group) -> None:
        """The window's own records: what was read, and what became of it."""
        records = self.sides.records(group.spec, group.segments).persist()
        try:
            with self.snapshot() as cursor:
                rejects = count_rejects(cursor, self.target, self.sides.window.epoch, group.segments)
            self.add(group, records, rejects)
        finally:
            records.unpersist()

    def count_all(self, state: TopicState | None, control: ControlDatabase) -> dict[int, str]:
        """Compares the totals. Returns the partitions that Kafka cannot tell of any more, and why."""
        with self.snapshot() as cursor:
            asked = {"target": self.target, "epoch": self.sides.window.epoch}
            cursor.execute(DELIVERED, asked)
            segments = [
                Segment(partition=number, start=start, end=end, spec_hash=made_by)
                for number, start, end, made_by in cursor.fetchall()
            ]
            cursor.execute(OTHER_EPOCHS, asked)
            (others,) = cursor.fetchone() or (0,)
            unknown = self._out_of_reach(state, segments, others)
            specs = {made_by: self._spec(control, made_by) for made_by in {one.spec_hash for one in segments}}
            if not unknown and all(specs.values()):
                self._compare(cursor, segments, {made_by: spec for made_by, spec in specs.items() if spec})
            elif not unknown:
                unknown = {one.partition: f"spec {one.spec_hash}, which added it up, is not kept" for one in segments}
        return unknown

    def _out_of_reach(self, state: TopicState | None, segments: list[Segment], other_epochs: int) -> dict[int, str]:
        if state is None or state.topic_id != self.sides.window.topic_id or other_epochs:
            return {one.partition: "the totals hold records of a topic that is gone" for one in segments}
        first = {one.partition: min(each.start for each in segments if each.partition == one.partition) for one in segments}
        return {
            number: f"Kafka begins at {state.earliest[number]:,}, the totals at {start:,}"
            for number, start in first.items()
            if state.earliest.get(number, 0) > start
        }

    def _spec(self, control: ControlDatabase, made_by: str) -> Spec | None:
        kept = read_spec(control, self.sides.stream.name, made_by)
        stream: Stream | None = from_snapshot(kept) if kept else None
        if stream is None and made_by == spec_hash(self.sides.stream):
            stream = self.sides.stream
        return Spec(self.sides.spark, stream) if stream else None

    def _compare(self, cursor: Cursor, segments: list[Segment], specs: dict[str, Spec]) -> None:
        newest = next(iter(specs.values()))
        wanted = wanted_table(self.place, self._settings, newest.shape)
        rows = [self._rows(spec, [one for one in segments if one.spec_hash == made_by]) for made_by, spec in specs.items()]
        accepted = reduce(DataFrame.unionByName, rows).join(F.broadcast(self._rejected(cursor)), PLACE, "left_anti")
        _expect(cursor, wanted, self._add_up(accepted))
        self._tell(cursor, wanted)

    def _rows(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        needed = dict.fromkeys([*self._settings.key, *self._settings.sum, *self._settings.min, *self._settings.max])
        return self.sides.records(spec, segments).where(F.col("fate") == GOOD).select(*PLACE, *needed)

    def _rejected(self, cursor: Cursor) -> DataFrame:
        cursor.execute(
            'SELECT partition, "offset" FROM tidemark.reject WHERE target = %s AND topic_epoch = %s',
            [self.target, self.sides.window.epoch],
        )
        return self.sides.spark.createDataFrame(cursor.fetchall(), "_partition int, _offset bigint")

    def _add_up(self, rows: DataFrame) -> DataFrame:
        """By Spark, not by the database's own statement, which is under judgement too."""
        sink = self._settings
        totals = [
            *(F.sum(name).alias(name) for name in sink.sum),
            *([F.count("*").alias(sink.count)] if sink.count else []),
            *(F.min(name).alias(f"{name}_min") for name in sink.min),
            *(F.max(name).alias(f"{name}_max") for name in sink.max),
        ]
        added = rows.groupBy(*sink.key).agg(*totals)
        return added.select(*(_as_text(field) for field in added.schema))

    def _tell(self, cursor: Cursor, wanted: WantedTable) -> None:
        cursor.execute(_differing(self._settings, wanted))
        found = cursor.fetchall()
        for row in found[:TOLD]:
            self.findings.append(self._sentence(row))
        if len(found) > TOLD:
            self.findings.append(f"{len(found):,} keys of {self.place} differ in all")

    def _sentence(self, row: tuple[Any, ...]) -> str:
        key, totals = self._settings.key, self._settings.totals
        there, expected = row[len(key) : len(key) + len(totals) + 1], row[len(key) + len(totals) + 1 :]
        who = ", ".join(f"{name} {value}" for name, value in zip(key, row, strict=False))
        if not there[0]:
            return f"the totals of {who} are lost"
        if not expected[0]:
            return f"there are totals of {who}, of whom Kafka has no record"
        differ = [
            f"{name} is {ours}, but {wanted} by Kafka's records"
            for name, ours, wanted in zip(totals, there[1:], expected[1:], strict=True)
            if ours != wanted
        ]
        return f"the totals of {who} differ: {'; '.join(differ)}"


def _as_text(field: T.StructField) -> Any:
    form = text_form(field.dataType)
    return form.as_text(field.name).alias(field.name) if form else F.col(field.name)


def _expect(cursor: Cursor, wanted: WantedTable, added: DataFrame) -> None:
    """Over the connection of the snapshot, which sees what it has written itself and nothing else that is new."""
    texts = SQL(", ").join(SQL("{} text").format(Identifier(name)) for name in added.columns)
    cursor.execute(SQL("CREATE TEMP TABLE expected_as_text ({}) ON COMMIT DROP").format(texts))
    cursor.copy_expert(
        "COPY expected_as_text FROM STDIN (FORMAT csv)", Parts(_csv(added.toLocalIterator(prefetchPartitions=True)))
    )
    there = columns_there(cursor, wanted)
    typed = SQL(", ").join(
        SQL("{} AS {}").format(from_text(SQL("s.{}").format(Identifier(name)), there[name].type), Identifier(name))
        for name in added.columns
    )
    cursor.execute(SQL("CREATE TEMP TABLE expected ON COMMIT DROP AS SELECT {} FROM expected_as_text s").format(typed))
    cursor.execute("ANALYZE expected")


def _differing(sink: PostgresTotals, wanted: WantedTable) -> Composed:
    """Key, whether it is in the table and its totals there, whether it is expected and its totals then."""
    of_table = SQL(", ").join(SQL("t.{}").format(Identifier(name)) for name in sink.totals)
    of_kafka = SQL(", ").join(SQL("e.{}").format(Identifier(name)) for name in sink.totals)
    keys = SQL(", ").join(SQL("coalesce(t.{0}, e.{0})").format(Identifier(name)) for name in sink.key)
    first = Identifier(sink.key[0])
    return SQL(
        "SELECT {keys}, t.{first} IS NOT NULL, {of_table}, e.{first} IS NOT NULL, {of_kafka} FROM {table} t"
        " FULL JOIN expected e ON {same} WHERE t.{first} IS NULL OR e.{first} IS NULL OR {differ} ORDER BY {keys}"
    ).format(
        keys=keys,
        first=first,
        of_table=of_table,
        of_kafka=of_kafka,
        table=wanted.name,
        same=SQL(" AND ").join(SQL("t.{0} = e.{0}").format(Identifier(name)) for name in sink.key),
        differ=SQL(" OR ").join(SQL("t.{0} IS DISTINCT FROM e.{0}").format(Identifier(name)) for name in sink.totals),
    )


def _csv(rows: Iterator[Any]) -> Iterator[bytes]:
    while chunk := [tuple(row) for row in islice(rows, ROWS_AT_ONCE)]:
        yield as_csv([pa.array(column, pa.string()) for column in zip(*chunk, strict=True)])
