"""Compares, inside the database, the rows that Kafka's records should be with those that a table has, at one snapshot (P7.1).

Values are compared by the database itself, in the types of its columns: every one of them, and not a checksum.
"""

from collections.abc import Iterable, Mapping, Sequence

from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composable, Composed, Identifier, Literal

from include.contract.stream_spec import PostgresUpsert
from include.control.window_contents import Segment
from jobs.differences import CHANGED, LOST, NAMED, STALE, STRANGE
from jobs.per_partition import PerPartition
from jobs.postgres.statements import KEPT_BY_BATCH, NEWER_BY, OF_RESULTS, Statements
from jobs.postgres.wanted_table import names

OF_A_REPLAY = ("_generation", "_batch_id")  # another in each delivery


def within(segments: Iterable[Segment], partition: str, offset: str) -> Composed:
    spans = [
        SQL("({0} = {2} AND {1} >= {3} AND {1} < {4})").format(
            SQL(partition), SQL(offset), Literal(one.partition), Literal(one.start), Literal(one.end)
        )
        for one in segments
    ]
    return SQL("({})").format(SQL(" OR ").join(spans))


class Comparison:
    """Of a table whose rows are records. `expected`: a temporary table with the rows that Kafka's records should be."""

    def __init__(self, cursor: Cursor, statements: Statements, target: str, epoch: int, segments: list[Segment]) -> None:
        self._cursor = cursor
        self._statements = statements
        self._table = statements.wanted.name
        self._target = target
        self._epoch = epoch
        self._segments = segments

    def expect(self, source: Composable, topic: str) -> None:
        """Without the rejects, some of which are no rows at all."""
        batch: Mapping[str, object] = {
            **dict.fromkeys(KEPT_BY_BATCH),
            "_topic": topic,
            "_topic_epoch": self._epoch,
        }
        accepted = SQL(
            "SELECT * FROM ({}) a WHERE no_text IS NULL AND NOT EXISTS (SELECT 1 FROM tidemark.reject r"
            ' WHERE r.target = {} AND r.topic_epoch = {} AND r.partition = a.partition AND r."offset" = a."offset")'
        ).format(source, Literal(self._target), Literal(self._epoch))
        rows = self._statements.rows(accepted, batch)
        self._cursor.execute(SQL("CREATE TEMP TABLE expected ON COMMIT DROP AS {}").format(rows))
        self._cursor.execute("ANALYZE expected")

    def counts(self) -> PerPartition:
        in_table = within(self._segments, "_partition", "_offset")
        self._cursor.execute(
            SQL("SELECT _partition, count(*), count(DISTINCT _offset) FROM {} WHERE _topic_epoch = {} AND {} GROUP BY 1").format(
                self._table, Literal(self._epoch), in_table
            )
        )
        return {
            partition: {"table_rows": rows, "table_coordinates": places} for partition, rows, places in self._cursor.fetchall()
        }

    def keys(self, unique: Sequence[str]) -> tuple[int, int]:
        """Rows of these offsets, and how many keys they have: a key that the stream file declares, not the table's own."""
        self._cursor.execute(
            SQL("SELECT count(*), count(DISTINCT ({})) FROM {} WHERE _topic_epoch = {} AND {}").format(
                names(list(unique)), self._table, Literal(self._epoch), within(self._segments, "_partition", "_offset")
            )
        )
        return self._cursor.fetchone() or (0, 0)

    def differences(self) -> list[tuple[str, int, int, list[int]]]:
        """Per kind and partition: how many records are not as they should be, and the offsets of the first of them."""
        self._cursor.execute(
            SQL(
                "SELECT kind, _partition, count(*), (array_agg(_offset ORDER BY _offset))[1:{named}] FROM ("
                "SELECT e._partition, e._offset, CASE WHEN t.{a_key} IS NULL THEN {lost}"
                " WHEN {same_record} THEN CASE WHEN {differs} THEN {changed} END {or_stale} END AS kind"
                " FROM {expected} e LEFT JOIN {table} t ON {same_key}"
                " UNION ALL SELECT t._partition, t._offset, {strange} FROM {table} t WHERE t._topic_epoch = {epoch} AND {ranges}"
                " AND NOT EXISTS (SELECT 1 FROM expected e WHERE e._partition = t._partition AND e._offset = t._offset)) d"
                " WHERE kind IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2"
            ).format(
                named=Literal(NAMED),
                expected=self._expected(),
                a_key=Identifier(self._statements.wanted.key[0]),
                lost=Literal(LOST),
                changed=Literal(CHANGED),
                strange=Literal(STRANGE),
                same_record=_all_equal(NEWER_BY),
                differs=SQL(" OR ").join(
                    self._differ(column.name) for column in self._statements.wanted.columns if column.name not in OF_A_REPLAY
                ),
                or_stale=self._or_stale(),
                same_key=_all_equal(self._statements.wanted.key),
                table=self._table,
                epoch=Literal(self._epoch),
                ranges=within(self._segments, "t._partition", "t._offset"),
            )
        )
        return self._cursor.fetchall()

    def _expected(self) -> Composed:
        """Where the newest wins, only the newest of each key can be lost."""
        sink = self._statements.sink
        if not isinstance(sink, PostgresUpsert):
            return SQL("expected").format()
        newest = SQL(", ").join(
            SQL("{}{} DESC").format(Identifier(name), self._statements.bytewise(name)) for name in _newest_by(sink)
        )
        return SQL("(SELECT DISTINCT ON ({0}) * FROM expected ORDER BY {0}, {1})").format(names(sink.key), newest)

    def _or_stale(self) -> Composed:
        """A later record of the key may stand there; an earlier one may not, where the newest wins."""
        sink = self._statements.sink
        if not isinstance(sink, PostgresUpsert):
            return SQL("").format()
        newest = {name: self._statements.bytewise(name) for name in _newest_by(sink)}
        there, expected = (
            SQL(", ").join(SQL("{}{}").format(Identifier(of, name), bytewise) for name, bytewise in newest.items())
            for of in ("t", "e")
        )
        return SQL("WHEN ({}) < ({}) THEN {}").format(there, expected, Literal(STALE))

    def _differ(self, name: str) -> Composed:
        is_json = self._statements.there[name].type == "json"  # which has no equality of its own
        comparison = "t.{0}::jsonb IS DISTINCT FROM e.{0}::jsonb" if is_json else "t.{0} IS DISTINCT FROM e.{0}"
        return SQL(comparison).format(Identifier(name))


def count_rejects(cursor: Cursor, target: str, epoch: int, segments: list[Segment]) -> PerPartition:
    in_rejects = within(segments, "partition", '"offset"')
    cursor.execute(
        SQL("SELECT partition, count(*) FROM tidemark.reject WHERE target = {} AND topic_epoch = {} AND {} GROUP BY 1").format(
            Literal(target), Literal(epoch), in_rejects
        )
    )
    return {partition: {"reject_rows": rows} for partition, rows in cursor.fetchall()}


def _all_equal(names: Iterable[str]) -> Composed:
    return SQL(" AND ").join(SQL("t.{0} = e.{0}").format(Identifier(name)) for name in names)


def _newest_by(sink: PostgresUpsert) -> tuple[str, ...]:
    return (sink.order, *NEWER_BY) if sink.order is not None else OF_RESULTS
