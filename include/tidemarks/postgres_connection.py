"""Connects to a sink's database by its Airflow connection: TLS settings and deadlines of its `extra` hold, and have defaults."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg2
from psycopg2.extensions import connection as PostgresConnection

from include.contract.connections import Connection
from include.contract.exit_class import ExitClass, StreamFailure

# What libpq reads itself; passed on as it stands.
PASSED_ON = frozenset(
    {
        *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "channel_binding"),
        *("ssl_min_protocol_version", "ssl_max_protocol_version", "sslcompression", "require_auth", "gssencmode"),
        *("connect_timeout", "target_session_attrs", "tcp_user_timeout", "keepalives_idle"),
    }
)
DEADLINES = {
    "statement_timeout": "10min",  # the INSERT of a large batch; a longer one needs smaller batches
    "lock_timeout": "20s",  # somebody else's lock on the table: the driver ends, and supervision tries again
    "idle_in_transaction_session_timeout": "60s",  # a driver that sleeps in its transaction must not hold the table for ever
}
FIXED = {"timezone": "UTC", "datestyle": "ISO", "client_encoding": "UTF8", "bytea_output": "hex"}
TCP_DEADLINE_MS = 10_000
NEXT_STEPS: dict[type[psycopg2.Error], str] = {
    psycopg2.errors.LockNotAvailable: "Find out whose transaction holds the lock: pg_locks and pg_stat_activity of that database "
    "tell. The stream tries again by itself.",
    psycopg2.errors.DiskFull: "Make room on the disk of that database. The stream tries again by itself.",
    psycopg2.errors.ReadOnlySqlTransaction: "Let the connection lead to the server that takes writes; "
    "target_session_attrs=read-write in its extra finds it. The stream tries again by itself.",
}


class DatabaseDown(StreamFailure):
    """A sink's database gives no answer, refuses the connection, or does not come to an end with what was asked of it."""

    exit_class = ExitClass.INFRASTRUCTURE


class StatementTooLong(StreamFailure):
    """The database broke off a statement of ours at its deadline: the batch is too long for it (P3.9)."""

    exit_class = ExitClass.STUCK


class PrivilegeMissing(StreamFailure):
    """The user of the connection may not do what a sink needs."""

    exit_class = ExitClass.CONFIGURATION


def connect(where: Connection, application: str, within_seconds: int = 10) -> PostgresConnection:
    own = {name: value for name, value in where.extra.items() if name in PASSED_ON}
    deadlines = {name: str(where.extra.get(name, default)) for name, default in DEADLINES.items()}
    options = " ".join(f"-c {name}={_escaped(value)}" for name, value in {**deadlines, **FIXED}.items())
    with told(where, "Nothing was written over this connection."):
        connection: PostgresConnection = psycopg2.connect(
            **{"connect_timeout": within_seconds, "tcp_user_timeout": TCP_DEADLINE_MS, "keepalives_idle": 10, **own},
            host=where.host,
            port=where.port,
            user=where.login,
            password=where.password,
            dbname=where.schema,
            application_name=application[:63],  # PostgreSQL cuts it off there
            options=options,
        )
    return connection


@contextmanager
def told(where: Connection, state: str) -> Iterator[None]:
    """What the database says, as a failure with its class; never with the password."""
    try:
        yield
    except psycopg2.Error as error:
        if (failure := _failure(error, where, state)) is None:
            raise
        raise failure from error


def _failure(error: psycopg2.Error, where: Connection, state: str) -> StreamFailure | None:
    """None if it speaks of what was asked, and not of the database."""
    happened = f"Database {where.schema} at {where.address}: {first_line(error)}"
    if isinstance(error, psycopg2.errors.QueryCanceled):
        next_step = "If it repeats: lower source.max_records_per_batch, or raise statement_timeout in the connection's extra."
        return StatementTooLong(happened, state=state, next_step=next_step)
    if isinstance(error, psycopg2.errors.InsufficientPrivilege):
        return _not_allowed(error, where, state)
    if isinstance(error, (psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.errors.ReadOnlySqlTransaction)):
        return DatabaseDown(happened, state=state, next_step=NEXT_STEPS.get(type(error)))
    return None


def _not_allowed(error: psycopg2.Error, where: Connection, state: str) -> PrivilegeMissing:
    user = where.login
    return PrivilegeMissing(
        f"Database {where.schema} at {where.address} does not let {user} do it: {first_line(error)}",
        state=state,
        next_step=f'Let it own the schema of its books: CREATE SCHEMA tidemark AUTHORIZATION "{user}", or, if it is there, '
        f'ALTER SCHEMA tidemark OWNER TO "{user}" with its tables.',
    )


def _escaped(value: str) -> str:
    """As libpq reads options: a space ends one unless a backslash stands before it."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
