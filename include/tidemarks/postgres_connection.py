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


class DatabaseDown(StreamFailure):
    """A sink's database gives no answer, refuses the connection, or does not come to an end with what was asked of it."""

    exit_class = ExitClass.INFRASTRUCTURE


class PrivilegeMissing(StreamFailure):
    """The user of the connection may not do what a sink needs."""

    exit_class = ExitClass.CONFIGURATION


def connect(where: Connection, application: str) -> PostgresConnection:
    own = {name: value for name, value in where.extra.items() if name in PASSED_ON}
    deadlines = {name: str(where.extra.get(name, default)) for name, default in DEADLINES.items()}
    options = " ".join(f"-c {name}={value}" for name, value in {**deadlines, **FIXED}.items())
    with told(where, "Nothing was written over this connection."):
        connection: PostgresConnection = psycopg2.connect(
            **{"connect_timeout": 10, "tcp_user_timeout": TCP_DEADLINE_MS, "keepalives_idle": 10, **own},
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
    except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
        raise DatabaseDown(f"Database {where.schema} at {where.address}: {first_line(error)}", state=state) from error
    except psycopg2.errors.InsufficientPrivilege as error:
        user = where.login
        raise PrivilegeMissing(
            f"Database {where.schema} at {where.address} does not let {user} do it: {first_line(error)}",
            state=state,
            next_step=f'Let it own the schema of its books: CREATE SCHEMA tidemark AUTHORIZATION "{user}", or, if it is there, '
            f'ALTER SCHEMA tidemark OWNER TO "{user}" with its tables; and grant it SELECT, INSERT and UPDATE on its table.',
        ) from error


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
