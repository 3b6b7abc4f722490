"""Old runs leave Airflow's own database while its scheduler works, and nobody sees the password."""

import uuid
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from include.contract.connections import Connection
from include.housekeeping import airflow_runs
from include.housekeeping.airflow_runs import CleaningFailed, sweep_airflow_runs
from include.local_stack.stack import Stack
from tests.running import command_lines, wait_for, watching

KEEP = timedelta(days=300)  # nothing that another test made is so old
UNUSUAL = timedelta(days=291)  # other tests of this machine may clean too
DATABASE = "AIRFLOW_CONN_AIRFLOW_DB"
ARCHIVE = "_airflow_deleted__dag_run__20200101000000"


@pytest.fixture
def database(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """In the environment that a task finds: Airflow's own address is blocked there."""
    for name, value in stack.airflow_environment().items():
        monkeypatch.setenv(name, value)
    for variable in ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__CORE__SQL_ALCHEMY_CONN"):
        monkeypatch.setenv(variable, "airflow-db-not-allowed:///")
    return stack.postgres.connection("airflow")


def ask(stack: Stack, statement: str, *values: object) -> list[tuple[object, ...]]:
    with closing(stack.postgres.connect("airflow")) as connection, connection, connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def add_run(stack: Stack, dag_id: str, run_id: str, run_type: str, days: int | None) -> None:
    ask(
        stack,
        "INSERT INTO dag_run (dag_id, run_id, run_type, state, start_date, run_after)"
        " VALUES (%s, %s, %s, 'success', now() - make_interval(days => %s), now())",
        *(dag_id, run_id, run_type, days),
    )


def rows_of(stack: Stack, run_id: str) -> dict[str, int]:
    tables = ("dag_run", "task_instance", "xcom", "log")
    return {table: int(str(ask(stack, f"SELECT count(*) FROM {table} WHERE run_id = %s", run_id)[0][0])) for table in tables}  # noqa: S608


def test_an_old_run_goes_with_all_its_rows_while_the_scheduler_works(
    stack: Stack, database: Connection, capfd: pytest.CaptureFixture[str]
) -> None:
    run_id = f"made_old_{uuid.uuid4().hex[:8]}"
    stack.api_server.run_dag("housekeeping", run_id, {"dry_run": True}, 300)
    assert all(rows_of(stack, run_id).values()), rows_of(stack, run_id)
    for table, column in (("dag_run", "start_date"), ("task_instance", "start_date"), ("xcom", "timestamp"), ("log", "dttm")):
        ask(stack, f"UPDATE {table} SET {column} = now() - interval '301 days' WHERE run_id = %s", run_id)  # noqa: S608
    young = set(ask(stack, "SELECT dag_id, run_id FROM dag_run WHERE run_id <> %s", run_id))
    would = sweep_airflow_runs(database, KEEP, dry_run=True)
    assert "dag_run 1" in would.what
    assert all(rows_of(stack, run_id).values())
    with watching(command_lines, every_seconds=0.02) as seen:
        swept = sweep_airflow_runs(database, KEEP, dry_run=False)
    assert rows_of(stack, run_id) == {"dag_run": 0, "task_instance": 0, "xcom": 0, "log": 0}
    assert "dag_run 1" in swept.what
    assert young <= set(ask(stack, "SELECT dag_id, run_id FROM dag_run"))
    assert ask(stack, "SELECT tablename FROM pg_tables WHERE tablename LIKE '\\_airflow\\_deleted%%'") == []
    assert [line for line in seen if "airflow db clean" in line]
    said = capfd.readouterr()
    assert not [text for text in (*seen, said.out, said.err, str(swept)) if str(database.password) in text]
    wait_for("the scheduler to make another run", lambda: _newest_run(stack) not in young, 90)


def _newest_run(stack: Stack) -> tuple[object, ...]:
    newest = "SELECT dag_id, run_id FROM dag_run WHERE dag_id = 'supervise_streams' ORDER BY run_after DESC LIMIT 1"
    return ask(stack, newest)[0]


def test_the_newest_scheduled_run_of_a_dag_stays_and_so_does_one_that_waits(stack: Stack, database: Connection) -> None:
    dag_id = f"past_{uuid.uuid4().hex[:8]}"
    runs = [("s1", "scheduled", 400), ("s2", "scheduled", 399), ("m1", "manual", 398), ("m2", "manual", 1), ("q", "manual", None)]
    for run_id, run_type, days in runs:
        add_run(stack, dag_id, run_id, run_type, days)
    sweep_airflow_runs(database, KEEP, dry_run=False)
    left = {run_id for (run_id,) in ask(stack, "SELECT run_id FROM dag_run WHERE dag_id = %s", dag_id)}
    ask(stack, "DELETE FROM dag_run WHERE dag_id = %s", dag_id)
    assert left == {"s2", "m2", "q"}


def test_what_a_killed_clean_left_is_dropped_and_an_archive_made_on_purpose_is_not(stack: Stack, database: Connection) -> None:
    for table in (ARCHIVE, f"{ARCHIVE}__b1"):
        ask(stack, f"CREATE TABLE {table} (id integer)")
    swept = sweep_airflow_runs(database, KEEP, dry_run=False)
    left = ask(stack, "SELECT tablename FROM pg_tables WHERE tablename LIKE '\\_airflow\\_deleted%%'")
    ask(stack, f"DROP TABLE {ARCHIVE}")
    assert left == [(ARCHIVE,)]
    assert "1 tables that a killed clean had left" in swept.what


def test_a_clean_that_fails_says_so_without_the_password(database: Connection) -> None:
    with pytest.raises(CleaningFailed, match="password authentication failed") as failed:
        sweep_airflow_runs(replace(database, password="not-the-password"), KEEP, dry_run=True)  # noqa: S106
    assert "not-the-password" not in str(failed.value)


def test_a_clean_that_hangs_is_ended(stack: Stack, database: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_runs, "PATIENCE_SECONDS", 0.5)
    with watching(command_lines, every_seconds=0.02) as seen, pytest.raises(CleaningFailed, match=r"was ended after 0\.5 s"):
        sweep_airflow_runs(database, UNUSUAL, dry_run=True)
    ours = f"airflow db clean --clean-before-timestamp {datetime.now(UTC) - UNUSUAL:%Y-%m-%d}"
    assert [line for line in seen if ours in line]
    wait_for("the process to be gone", lambda: not any(ours in line for line in command_lines()), 10)


def test_a_job_is_not_told_airflows_database(stack: Stack) -> None:
    assert DATABASE in stack.airflow_environment()
    assert DATABASE not in stack.job_environment()
    with watching(lambda: _told(stack), every_seconds=0.1) as seen:
        stack.api_server.run_dag("check_deployment", f"told-{uuid.uuid4().hex[:8]}", {"records": 100}, 300)
    assert seen == {"not told"}


def _told(stack: Stack) -> set[str]:
    """Whether the processes of a job that Airflow submitted can read the variable."""
    told = set()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            environment, line = process.environ(), " ".join(process.cmdline())
            if "jobs/check_deployment.py" in line and environment.get("TIDEMARK_HOME") == str(stack.home.folder):
                told.add("told" if environment.get(DATABASE) else "not told")
    return told
