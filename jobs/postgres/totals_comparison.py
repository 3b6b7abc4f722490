"""Compares, inside the database, the totals that Kafka's records add up to with those of a table, at one snapshot (P7.1)."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composed, Identifier
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from include.contract.stream_spec import PostgresTotals
from jobs.postgres.columns_there import ColumnThere
from jobs.postgres.copied_texts import Parts, as_csv
from jobs.postgres.text_forms import from_text, text_form
from jobs.postgres.wanted_table import WantedTable

ROWS_AT_ONCE = 10_000


def _as_text(field: T.StructField) -> Any:
    form = text_form(field.dataType)
    return form.as_text(field.name).alias(field.name) if form else F.col(field.name)


def stage_totals(cursor: Cursor, there: Mapping[str, ColumnThere], added: DataFrame, table: str) -> None:
    """In a temporary table: `expected`, or the keys that are `doubtful`. Over the connection of the snapshot, which sees what it
    has written itself and nothing else that is new."""
    as_text = added.select(*(_as_text(field) for field in added.schema))
    texts = SQL(", ").join(SQL("{} text").format(Identifier(name)) for name in added.columns)
    staged, name = Identifier(f"{table}_as_text"), Identifier(table)
    cursor.execute(SQL("CREATE TEMP TABLE {} ({}) ON COMMIT DROP").format(staged, texts))
    copy = SQL("COPY {} FROM STDIN (FORMAT csv)").format(staged)
    cursor.copy_expert(copy, Parts(_csv(as_text.toLocalIterator(prefetchPartitions=True))))
    typed = SQL(", ").join(
        SQL("{} AS {}").format(from_text(SQL("s.{}").format(Identifier(name)), there[name].type), Identifier(name))
        for name in added.columns
    )
    cursor.execute(SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} s").format(name, typed, staged))
    cursor.execute(SQL("ANALYZE {}").format(name))


def differing(sink: PostgresTotals, wanted: WantedTable) -> Composed:
    """Key, whether it is in the table and its totals there, whether it is expected and its totals then. Without doubtful keys."""
    of_table = SQL(", ").join(SQL("t.{}").format(Identifier(name)) for name in sink.totals)
    of_kafka = SQL(", ").join(SQL("e.{}").format(Identifier(name)) for name in sink.totals)
    keys = SQL(", ").join(SQL("coalesce(t.{0}, e.{0})").format(Identifier(name)) for name in sink.key)
    first = Identifier(sink.key[0])
    return SQL(
        "SELECT {keys}, t.{first} IS NOT NULL, {of_table}, e.{first} IS NOT NULL, {of_kafka} FROM {table} t"
        " FULL JOIN expected e ON {same} WHERE (t.{first} IS NULL OR e.{first} IS NULL OR {differ})"
        " AND NOT EXISTS (SELECT 1 FROM doubtful d WHERE {is_doubtful}) ORDER BY {keys}"
    ).format(
        keys=keys,
        first=first,
        of_table=of_table,
        of_kafka=of_kafka,
        table=wanted.name,
        same=SQL(" AND ").join(SQL("t.{0} = e.{0}").format(Identifier(name)) for name in sink.key),
        is_doubtful=SQL(" AND ").join(SQL("d.{0} = coalesce(t.{0}, e.{0})").format(Identifier(name)) for name in sink.key),
        differ=SQL(" OR ").join(SQL("t.{0} IS DISTINCT FROM e.{0}").format(Identifier(name)) for name in sink.totals),
    )


def _csv(rows: Iterator[Any]) -> Iterator[bytes]:
    while chunk := [tuple(row) for row in islice(rows, ROWS_AT_ONCE)]:
        yield as_csv([pa.array(column, pa.string()) for column in zip(*chunk, strict=True)])
