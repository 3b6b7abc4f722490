"""One state of a database for as long as reconciliation needs it. Ends without a trace."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from psycopg2.extensions import cursor as Cursor

from include.contract.connections import Connection
from include.tidemarks.postgres_connection import connect, told

APPLICATION = "tidemark recounts"


@contextmanager
def snapshot_of(where: Connection) -> Iterator[Cursor]:
    with told(where, "Nothing was changed."), closing(connect(where, APPLICATION)) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SET LOCAL statement_timeout = 0")  # a COPY takes as long as Spark takes to make its rows
        yield cursor
        connection.rollback()
