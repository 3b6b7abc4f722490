"""Removes old runs, their task instances and events from Airflow's own database, by `airflow db clean` in a process of its own.

A task may not use Airflow's database (Airflow replaces its address in the task's environment), so the address comes as a
connection. It stands in the environment of that process alone, never on a command line or in a log.
"""

import os
import re
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as PostgresConnection

from include.contract.connections import Connection
from include.contract.errors import TidemarkError
from include.housekeeping.swept import Swept, days
from include.processes.die_with_parent import bound_to_this_process

PROJECT = Path(__file__).resolve().parents[2]
# What grows. `db clean` adds the tables that hang on these: task_instance and its history, xcom, deadline, task_state_store.
# Not `dag` and not `trigger`: it goes by age alone, and would take a DAG that is not parsed for a while with its switch.
TABLES = ("dag_run", "dag_version", "import_error", "job", "log", "revoked_token", "session", "task_reschedule")
BATCH_ROWS = 10_000  # of one transaction; also what a run that is killed leaves behind at most, in a table of its own
PATIENCE_SECONDS = 1800  # an empty clean takes 6 to 10 s; a first one after a year of runs some minutes
NOT_FOR_IT = ("_AIRFLOW", "__AIRFLOW", "AIRFLOW__CORE__SQL_ALCHEMY_CONN")  # what Airflow set for the task alone
LEFT_BEHIND = re.compile(r"_airflow_deleted__\w+__(\d{14})__b\d+")  # only `--batch-size` makes the last part


class CleaningFailed(TidemarkError):
    """`airflow db clean` did not end as it should."""


def sweep_airflow_runs(database: Connection, retention: timedelta, *, dry_run: bool) -> Swept:
    before = datetime.now(UTC) - retention
    counts = read_counts(_clean(database, before, dry_run))
    dropped = _drop_left_behind(database, before, dry_run)
    by_table = ", ".join(f"{table} {count:,}" for table, count in sorted(counts.items()) if count) or "no table has any"
    kept = f"the last {days(retention)} and each DAG's newest scheduled run, from which scheduling goes on"
    tables = f", {dropped} tables that a killed clean had left" if dropped else ""
    return Swept(f"rows of Airflow's database ({by_table}{tables})", sum(counts.values()), (kept,))


def read_counts(said: str) -> dict[str, int]:
    """By table, from what `airflow db clean` prints."""
    return {table: int(count) for table, count in re.findall(r"Checking table (\w+)\s+Found (\d+) rows", said)}


def _clean(database: Connection, before: datetime, dry_run: bool) -> str:
    options = ["--clean-before-timestamp", before.isoformat(), "--tables", ",".join(TABLES), "--batch-size", str(BATCH_ROWS)]
    options += ["--yes", "--skip-archive", "--error-on-cleanup-failure", *(["--dry-run"] if dry_run else [])]
    try:
        done = subprocess.run(
            bound_to_this_process([sys.executable, "-m", "airflow", "db", "clean", *options]),
            env=_environment(database),
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _failed(f"was ended after {PATIENCE_SECONDS} s", "") from None
    if done.returncode:
        raise _failed(f"ended with code {done.returncode}", done.stdout.replace(database.password or "\0", "***"))
    return done.stdout


def _environment(database: Connection) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_IT)}
    return {**kept, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.postgres_url}


def _failed(how: str, said: str) -> CleaningFailed:
    last_lines = "\n    ".join(said.strip().splitlines()[-8:])
    return CleaningFailed(
        f"`airflow db clean` {how}." + (f" Its last lines:\n    {last_lines}\n" if last_lines else ""),
        state="Batches that were finished are removed, the others are whole; Airflow goes on.",
        next_step="Mend the cause and clear this task; each run goes on where the last one ended.",
    )


def left_behind(tables: list[str], before: datetime) -> list[str]:
    """`db clean` copies each batch into a table, deletes the rows, drops the table: one that was killed leaves the copy."""
    found = {table: match[1] for table in tables if (match := LEFT_BEHIND.fullmatch(table))}
    return [table for table, stamp in found.items() if stamp < f"{before:%Y%m%d%H%M%S}"]


def _drop_left_behind(database: Connection, before: datetime, dry_run: bool) -> int:
    with closing(_connect(database)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        tables = left_behind([table for (table,) in cursor.fetchall()], before)
        for table in [] if dry_run else tables:
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table)))
    return len(tables)


def _connect(database: Connection) -> PostgresConnection:
    connection: PostgresConnection = psycopg2.connect(
        host=database.host,
        port=database.port,
        user=database.login,
        password=database.password,
        dbname=database.schema,
        connect_timeout=5,
        **database.extra,
    )
    return connection
