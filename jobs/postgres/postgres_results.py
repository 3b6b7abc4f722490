"""Results of windows of event time in PostgreSQL, compared inside the database, at the one snapshot whose tidemark says which
records they were made of (P7.1).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from psycopg2.sql import SQL, Identifier, Literal

from include.contract.connections import read_connection
from include.contract.places import DatabaseTable
from include.contract.stream_spec import WINDOW_END, WINDOW_START, Aggregate, PostgresUpsert
from include.tidemarks.postgres_log import target_of
from jobs.differences import CHANGED, LOST, STRANGE
from jobs.known_batches import KnownBatches
from jobs.measuring import Sides
from jobs.postgres.columns_there import columns_there
from jobs.postgres.snapshot import snapshot_of
from jobs.postgres.values_by_key import TOLD, Differing, ValuesByKey
from jobs.postgres.wanted_table import wanted_table
from jobs.reach import Reach
from jobs.result_comparison import Results, sentence
from jobs.row_shape import sink_shape


class PostgresResults:
    def __init__(self, sides: Sides, aggregate: Aggregate, settings: PostgresUpsert, place: DatabaseTable) -> None:
        self._sides = sides
        self._aggregate = aggregate
        self._settings = settings
        self._place = place

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        with snapshot_of(read_connection(self._place.connection)) as self._cursor:
            yield

    def known(self, reach: Reach) -> KnownBatches:
        self._cursor.execute("SELECT max(version) FROM tidemark.sink_commit WHERE target = %s", [target_of(self._place)])
        (newest,) = self._cursor.fetchone() or (None,)
        return reach.read(self._sides, newest if newest is not None else self._sides.window.snapshot)

    def compare(self, results: Results, after: datetime) -> list[str]:
        key, values = [*self._aggregate.key, WINDOW_START], [WINDOW_END, *self._aggregate.values]
        wanted = wanted_table(self._place, self._settings, sink_shape(self._sides.spark, self._sides.stream))
        there = columns_there(self._cursor, wanted)
        if missing := [name for name in (*key, *values) if name not in there]:
            return [f"{self._place} has no column {', '.join(missing)}"]
        # Rows of another epoch were made of another topic; one without an epoch is a stranger's.
        rows = SQL("(SELECT * FROM {} WHERE {} > {} AND coalesce(_topic_epoch = {}, true))").format(
            wanted.name, Identifier(WINDOW_START), Literal(after), Literal(self._sides.window.epoch)
        )
        compared = ValuesByKey(self._cursor, rows, key, values, there)
        first, count = compared.find_differing(results.expected, results.doubtful.distinct())
        told = [_sentence(one) for one in first]
        return told if count <= TOLD else [*told, f"{count:,} windows of event time differ in all"]


def _sentence(one: Differing) -> str:
    kind = LOST if one.there is None else STRANGE if one.wanted is None else CHANGED
    return sentence(kind, one.key, one.there or {}, one.wanted or {})
