"""The one statement of each kind of sink that puts staged rows into the table. It tells how many of each partition it wrote."""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg2.sql import SQL, Composable, Composed, Identifier, Literal

from include.contract.stream_spec import PostgresInsertNew, PostgresSink, PostgresTotals, PostgresUpsert
from jobs.postgres.columns_there import ColumnThere, digits_to_check, holds_every_value
from jobs.postgres.partial_totals import RECORDS, staged_totals
from jobs.postgres.text_forms import PLACES, TEXTS, from_text
from jobs.postgres.wanted_table import WantedTable, names

KEPT_BY_BATCH = ("_topic", "_topic_epoch", "_generation", "_batch_id")  # the same in every row of a batch: not staged
BYTEWISE = SQL(' COLLATE "C"')
OF_RESULTS = ("_generation", "_batch_id")  # absolute values of windows: those of a later batch hold
NEWER_BY = ("_topic_epoch", "_partition", "_offset")  # of rows with the same order, in whatever batches they come


@dataclass(frozen=True)
class Statements:
    """`staged`: the names of the columns in the order of their texts: the stream's, or of totals the table's."""

    sink: PostgresSink
    wanted: WantedTable
    there: Mapping[str, ColumnThere]
    staged: tuple[str, ...]

    def put(self, source: Composable, batch: Mapping[str, object]) -> Composed:
        """`source`: a query of staged rows. `batch`: what is the same in every row."""
        if isinstance(self.sink, PostgresTotals):
            return self._add_up(self.sink, source)
        if isinstance(self.sink, PostgresUpsert):
            return self._upsert(self.sink, self.rows(source, batch))
        return self._insert_new(self.sink, self.rows(source, batch))

    def _insert_new(self, sink: PostgresInsertNew, rows: Composed) -> Composed:
        return SQL(
            "WITH written AS (INSERT INTO {table} ({columns}) SELECT {columns} FROM ({rows}) r ORDER BY _partition, _offset"
            " ON CONFLICT ({key}) DO NOTHING RETURNING _partition) SELECT _partition, count(*) FROM written GROUP BY 1"
        ).format(table=self.wanted.name, columns=self._columns, rows=rows, key=names(sink.key))

    def _upsert(self, sink: PostgresUpsert, rows: Composed) -> Composed:
        newest = [sink.order, *NEWER_BY] if sink.order is not None else OF_RESULTS
        return SQL(
            "WITH written AS (INSERT INTO {table} AS there ({columns}) SELECT DISTINCT ON ({key}) {columns} FROM ({rows}) r"
            " ORDER BY {key}, {newest_first} ON CONFLICT ({key}) DO UPDATE SET {set} WHERE ({of_there}) < ({of_excluded})"
            " RETURNING _partition) SELECT _partition, count(*) FROM written GROUP BY 1"
        ).format(
            table=self.wanted.name,
            columns=self._columns,
            rows=rows,
            key=names(sink.key),
            newest_first=SQL(", ").join(SQL("{}{} DESC").format(Identifier(name), self.bytewise(name)) for name in newest),
            set=SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(column.name)) for column in self.wanted.columns),
            of_there=SQL(", ").join(SQL("there.{}{}").format(Identifier(name), self.bytewise(name)) for name in newest),
            of_excluded=SQL(", ").join(SQL("excluded.{}{}").format(Identifier(name), self.bytewise(name)) for name in newest),
        )

    def _add_up(self, sink: PostgresTotals, source: Composable) -> Composed:
        """Every staged row is added; the table has no coordinates, so the records of the staged rows are counted."""
        return SQL(
            "WITH source AS ({source}), added AS (INSERT INTO {table} AS there ({columns}) SELECT {totals} FROM source s"
            " GROUP BY {key} ON CONFLICT ({conflict}) DO UPDATE SET {set})"
            " SELECT partition, {records} FROM source s GROUP BY 1"
        ).format(
            source=source,
            records=self._records(),
            table=self.wanted.name,
            columns=self._columns,
            totals=SQL(", ").join([*(self._value(name) for name in sink.key), *self._totals(sink)]),
            key=SQL(", ").join(self._value(name) for name in sink.key),
            conflict=names(sink.key),
            set=SQL(", ").join(_added(name, sink, self.bytewise(name)) for name in sink.totals),
        )

    def _totals(self, sink: PostgresTotals) -> list[Composable]:
        counted: list[Composable] = [self._records()] if sink.count else []
        return [
            *(SQL("sum({})").format(self._value(name)) for name in sink.sum),
            *counted,
            *(SQL("min({}{})").format(self._value(name), self.bytewise(name)) for name in (f"{one}_min" for one in sink.min)),
            *(SQL("max({}{})").format(self._value(name), self.bytewise(name)) for name in (f"{one}_max" for one in sink.max)),
        ]

    def _records(self) -> Composed:
        return SQL("sum(s.{}::bigint)::bigint").format(self._staged(RECORDS))

    @property
    def judges_each_record(self) -> bool:
        """A value that the table cannot hold must not hide in a total that it can."""
        totals = [column for column in self.wanted.columns if column.name not in self.wanted.key]
        return not all(holds_every_value(column, self.there[column.name]) for column in totals)

    def rows(self, source: Composable, batch: Mapping[str, object]) -> Composed:
        """Staged rows as rows of the table."""
        values: list[Composable] = []
        for column in self.wanted.columns:
            if column.name in KEPT_BY_BATCH:
                value: Composable = Literal(batch[column.name])
            elif column.name in PLACES:
                value = SQL("s.{}").format(Identifier(column.name.removeprefix("_")))
            else:
                value = self._value(column.name)
            values.append(SQL("{} AS {}").format(value, Identifier(column.name)))
        return SQL("SELECT {} FROM ({}) s").format(SQL(", ").join(values), source)

    def _value(self, name: str) -> Composable:
        """A staged text as a value of the type that the table's column has."""
        there = self.there[name]
        wanted = next(one for one in self.wanted.columns if one.name == name)
        staged = SQL("s.{}").format(self._staged(name))
        return from_text(staged, there.type, digits_to_check(wanted, there), there.length)

    def _staged(self, name: str) -> Identifier:
        return Identifier(f"c{self.staged.index(name)}")

    def bytewise(self, name: str) -> Composable:
        """Texts are ordered as Spark does it, not by the language of a database: so it is the same in every batch."""
        return BYTEWISE if self.there[name].type in TEXTS else SQL("")

    @property
    def _columns(self) -> Composed:
        return names([column.name for column in self.wanted.columns])


def staged_columns(sink: PostgresSink, shape: list[str]) -> tuple[str, ...]:
    """Those whose texts are staged: totals; or of the stream's columns what the table needs, and the time of the record."""
    if isinstance(sink, PostgresTotals):
        return staged_totals(sink)
    return tuple(name for name in shape if name not in (*KEPT_BY_BATCH, *PLACES))


def _added(name: str, sink: PostgresTotals, bytewise: Composable) -> Composed:
    """NULL is what no value adds up to."""
    column = Identifier(name)
    if name in sink.sum or name == sink.count:
        return SQL("{0} = coalesce(there.{0} + excluded.{0}, there.{0}, excluded.{0})").format(column)
    pick = SQL("least" if name in [f"{one}_min" for one in sink.min] else "greatest")
    return SQL("{0} = {1}(there.{0}{2}, excluded.{0}{2})").format(column, pick, bytewise)
