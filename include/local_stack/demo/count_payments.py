"""The stranger's count of payments: what plain arithmetic makes of those that the broker acknowledged, each once and no late one,
against what the tables of windows and totals hold. Knows nothing of watermarks or state.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from psycopg2.extensions import connection as PostgresConnection
from psycopg2.sql import SQL, Identifier

from include.local_stack.demo.count import NAMED, Count
from include.local_stack.demo.payments import SentPayments

Totals = Mapping[Hashable, tuple[int, ...]]  # the number of payments first
WINDOWS = "SELECT user_id, window_start, payments, amount_cents FROM totals WHERE NOT _deleted"


def count_windows(sent: SentPayments, table: Path) -> Count:
    """Of a table of the lake: payments and cents, by user and five minutes."""
    found = pa.table(QueryBuilder().register("totals", DeltaTable(table)).execute(WINDOWS).read_all()).to_pylist()
    there: dict[Hashable, tuple[int, ...]] = {
        (row["user_id"], row["window_start"]): (row["payments"], row["amount_cents"]) for row in found
    }
    wanted: dict[Hashable, tuple[int, ...]] = defaultdict(lambda: (0, 0))
    for one in sent.once:
        payments, cents = wanted[one.user, one.window]
        wanted[one.user, one.window] = payments + 1, cents + one.cents
    twice = len(found) - len(there)
    return _compare(sent, there, wanted, "windows", (f"{twice:,} windows stand there twice",) if twice else ())


def count_of_users(sent: SentPayments, connection: PostgresConnection, table: str) -> Count:
    """Of a table of PostgreSQL: payments by user."""
    with connection.cursor() as cursor:
        cursor.execute(SQL("SELECT user_id, events FROM public.{}").format(Identifier(table)))
        there: dict[Hashable, tuple[int, ...]] = {user: (int(events),) for user, events in cursor.fetchall()}
    wanted: dict[Hashable, tuple[int, ...]] = defaultdict(lambda: (0,))
    for one in sent.once:
        wanted[one.user] = (wanted[one.user][0] + 1,)
    return _compare(sent, there, wanted, "users", ())


def _compare(sent: SentPayments, there: Totals, wanted: Totals, what: str, named: tuple[str, ...]) -> Count:
    differ = sorted((key for key in {*there, *wanted} if there.get(key) != wanted.get(key)), key=str)
    missing = [wanted.get(key, (0,))[0] - there.get(key, (0,))[0] for key in differ]
    shown = "; ".join(f"{key}: {there.get(key)} instead of {wanted.get(key)}" for key in differ[:NAMED])
    told = (f"{len(differ):,} {what} have other totals: {shown}",) if differ else ()
    return Count(
        produced=len(sent.acknowledged),
        delivered=sum(values[0] for values in there.values()),
        quarantined=0,
        filtered=0,
        delivered_twice=sum(-number for number in missing if number < 0),
        lost=sum(number for number in missing if number > 0),
        duplicates=sent.duplicates,
        late=sent.late,
        named=(*named, *told),
    )
