"""How many records a batch may have after it was too big for memory (P3.9): remembered by where it began.

Three ends of one class, with no good batch between them and some partition where it was, halve it: slots of a Kafka sink that are
through move theirs. Ten good batches double it again. A limit holds from a start to its end.
"""

from collections.abc import Mapping

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import Json

FAILURES_UNTIL_HALVED = 3
GOOD_BATCHES_UNTIL_DOUBLED = 10


def read_limit(cursor: Cursor, stream: str, declared: int) -> int:
    cursor.execute("SELECT records FROM batch_limit WHERE stream = %s AND records IS NOT NULL", [stream])
    return min(declared, next(iter(cursor.fetchone() or ()), declared))


def note_too_big(cursor: Cursor, stream: str, exit_class: str, starts: Mapping[int, int], records: int) -> None:
    """A batch of `records` that begins at `starts` did not get through."""
    cursor.execute(
        "INSERT INTO batch_limit AS there (stream, class, starts, failures) VALUES (%s, %s, %s, 1)"
        " ON CONFLICT (stream) DO UPDATE SET class = excluded.class, starts = excluded.starts, good_batches = 0,"
        " failures = CASE WHEN there.class = excluded.class AND EXISTS ("
        "   SELECT FROM jsonb_each(there.starts) AS before JOIN jsonb_each(excluded.starts) AS now USING (key, value))"
        " THEN there.failures + 1 ELSE 1 END",
        [stream, exit_class, Json({str(partition): offset for partition, offset in sorted(starts.items())})],
    )
    cursor.execute(
        "UPDATE batch_limit SET records = greatest(1, %s / 2), failures = 0 WHERE stream = %s AND failures >= %s",
        [records, stream, FAILURES_UNTIL_HALVED],
    )


def note_good_batches(cursor: Cursor, stream: str, count: int, declared: int) -> None:
    if not count:
        return
    cursor.execute("UPDATE batch_limit SET failures = 0, good_batches = good_batches + %s WHERE stream = %s", [count, stream])
    cursor.execute(
        "UPDATE batch_limit SET records = records * 2, good_batches = 0 WHERE stream = %s AND good_batches >= %s",
        [stream, GOOD_BATCHES_UNTIL_DOUBLED],
    )
    cursor.execute("DELETE FROM batch_limit WHERE stream = %s AND records >= %s", [stream, declared])
