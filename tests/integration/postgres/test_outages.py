"""Whatever happens to the database, the driver ends with what was the matter, and the next start goes on without a loss."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from psycopg2.sql import SQL, Composable, Identifier, Literal
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.control.windows import Verdict, windows_of_day
from include.local_stack.postgres import SERVER_USER, WAREHOUSE
from include.local_stack.stack import Stack
from include.tidemarks.postgres_connection import DatabaseDown
from jobs.failpoints import Failpoint
from jobs.sink import SinkWentBack
from tests.integration.reconciliation.trial import Trial
from tests.relay import Relay
from tests.running import wait_for
from tests.streams import at, exit_class_of, once
from tests.warehouse import Warehouse, WarehouseStream

BATCH = 3  # the transactions of a start: fence, adoption, then the first batch


@pytest.fixture
def stream(stack: Stack, tmp_path: Path) -> WarehouseStream:
    return WarehouseStream(stack, tmp_path, kind="postgres_totals")


@pytest.fixture
def relay(stack: Stack) -> Iterator[Relay]:
    relay = Relay(stack.postgres.connection(WAREHOUSE).port or 0)
    yield relay
    relay.close()


def through(stream: WarehouseStream, **changes: Any) -> dict[str, str]:
    there = json.loads(stream.variables()["AIRFLOW_CONN_WAREHOUSE"])
    return {"AIRFLOW_CONN_WAREHOUSE": json.dumps(there | changes)}


def ends(
    stream: WarehouseStream, spark: SparkSession, says: str, exit_class: ExitClass = ExitClass.INFRASTRUCTURE, **more: str
) -> None:
    """With a class by which supervision tries again; and never with the password."""
    with pytest.raises(Exception, match=says) as ended:
        stream.run(spark, **more)
    assert exit_class_of(ended.value) is exit_class, ended.value
    assert json.loads(stream.variables()["AIRFLOW_CONN_WAREHOUSE"])["password"] not in str(ended.value)


def at_time(number: int, act: Any) -> Any:
    """Of coming by."""
    times = iter(range(1, 1_000))
    return lambda: act() if next(times) == number else None


def test_a_database_that_is_restarted_in_mid_batch_loses_nothing(
    stream: WarehouseStream, stack: Stack, spark: SparkSession, warehouse: Warehouse
) -> None:
    """Between staging and transaction: what was staged is gone with the crash, for the table is unlogged."""
    stream.send_orders(200)

    def restart() -> None:
        process = stack.postgres.process
        assert process is not None
        psutil.Process(process.pid).kill()
        wait_for("the end of the server", lambda: not process.is_alive())
        stack.up()

    with at(Failpoint.IN_WRITE, once(restart)):
        ends(stream, spark, "rows were staged in staging_.*, but 0 are there")
    assert warehouse.rows(stream.name) == []
    stream.run(spark)
    assert warehouse.problems(stream) == []


@pytest.mark.parametrize("arrives", [True, False], ids=["the commit arrives", "the commit is lost"])
def test_a_connection_that_breaks_in_commit_adds_nothing_twice(
    arrives: bool, stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse, relay: Relay
) -> None:
    stream.send_orders(200)
    wire = through(stream, port=relay.port)
    with at(Failpoint.IN_TRANSACTION, at_time(BATCH, relay.deafen if arrives else relay.cut)):
        ends(stream, spark, "Database warehouse at", **wire)
    assert bool(warehouse.rows(stream.name)) is arrives
    relay.mend()
    stream.send_orders(100)
    stream.run(spark, **wire)
    assert warehouse.problems(stream) == []


def test_a_lock_that_somebody_holds_ends_the_stream_for_now(
    stream: WarehouseStream, stack: Stack, spark: SparkSession, warehouse: Warehouse
) -> None:
    stream.send_orders(20)
    stream.run(spark)
    stream.send_orders(20)
    with closing(stack.postgres.connect(WAREHOUSE)) as other, other.cursor() as cursor:
        cursor.execute(SQL("LOCK TABLE public.{} IN EXCLUSIVE MODE").format(Identifier(stream.name)))
        ends(stream, spark, "lock timeout", **through(stream, extra={"lock_timeout": "500 ms"}))
    stream.run(spark)
    assert warehouse.problems(stream) == []


def test_a_statement_that_takes_too_long_is_broken_off(
    stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse
) -> None:
    stream.send_orders(20)
    stream.run(spark)
    stream.send_orders(20)
    table = Identifier(stream.name)
    warehouse.ask(
        "CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_sleep(3); RETURN NEW; END'"
    )
    warehouse.ask(SQL("CREATE TRIGGER slow BEFORE INSERT ON public.{} EXECUTE FUNCTION public.slow()").format(table))
    ends(stream, spark, "statement timeout", ExitClass.STUCK, **through(stream, extra={"statement_timeout": "1s"}))
    warehouse.ask(SQL("DROP TRIGGER slow ON public.{}").format(table))
    stream.run(spark)
    assert warehouse.problems(stream) == []


def test_a_server_without_tls_is_not_written_to_where_tls_is_asked_for(stream: WarehouseStream, spark: SparkSession) -> None:
    stream.send_orders(5)
    ends(stream, spark, "server does not support SSL", **through(stream, extra={"sslmode": "require"}))


def test_too_many_connections_are_told_as_such(stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse) -> None:
    user = f"few_{stream.name}"
    warehouse.ask(SQL("CREATE ROLE {} LOGIN PASSWORD 'pw' CONNECTION LIMIT 0").format(Identifier(user)))
    stream.send_orders(5)
    with pytest.raises(DatabaseDown, match="too many connections"):
        stream.run(spark, **through(stream, login=user, **{"password": "pw"}))


def test_a_database_that_went_back_is_delivered_again(
    stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path
) -> None:
    """A failover to a copy that was behind: under the running driver the database is another, older one. What was judged of
    commits that are gone is judged again (P7.2)."""
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals", own_control=own_control)
    trial = Trial(stack, spark, tmp_path, own_control, stream)
    name = f"first_{stream.name}"
    first, copy, ahead = (Identifier(f"{which}_{stream.name}") for which in ("first", "copy", "ahead"))
    _of_the_server(stack, SQL("CREATE DATABASE {}").format(first))
    wire = through(stream, schema=name)
    stream.send_orders(100)
    stream.run(spark, **wire)
    _of_the_server(stack, SQL("CREATE DATABASE {} TEMPLATE {}").format(copy, first))
    stream.send_orders(100)
    with stream.running(spark, **wire) as running:
        wait_for("the second hundred", lambda: _orders(stack, stream, name) == 200)
        judged = trial.judged(**wire)
        assert judged.verdict is Verdict.PASSED, judged.told
        for now, then in ((first, ahead), (copy, first)):
            _of_the_server(stack, SQL("ALTER DATABASE {} RENAME TO {}").format(now, then))
        stream.send_orders(50)
        ended = running.wait_until_it_fails()
    assert isinstance(ended, SinkWentBack)
    assert exit_class_of(ended) is ExitClass.SINK_WENT_BACK
    stream.run(spark, **wire)
    assert _orders(stack, stream, name) == 250
    again = trial.judged(**wire)
    assert (again.verdict, again.offsets) == (Verdict.PASSED, 250), again.told
    with own_control.transaction() as cursor:
        (before, _) = windows_of_day(cursor, stream.name, f"{again.chosen_at:%Y-%m-%d}")
    assert (before.id, before.verdict) == (judged.id, Verdict.REOPENED)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a disk")
def test_a_full_disk_ends_the_stream_until_there_is_room(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, kind="postgres_insert_new")
    stream.write_file(source__max_records_per_batch=10_000)
    table, space = Identifier(stream.name), Identifier(f"space_{stream.name}")
    (disk := tmp_path / "disk").mkdir()
    with ExitStack() as undone:  # in the reverse order, whatever fails
        _run("mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk))
        undone.callback(_run, "umount", "--lazy", str(disk))
        shutil.chown(disk, SERVER_USER)
        _of_the_server(stack, SQL("CREATE TABLESPACE {} LOCATION {}").format(space, Literal(str(disk))))
        undone.callback(_of_the_server, stack, SQL("DROP TABLESPACE {}").format(space))
        stream.send_orders(20)
        stream.run(spark)
        undone.callback(warehouse.ask, SQL("DROP TABLE public.{}").format(table))
        warehouse.ask(SQL("ALTER TABLE public.{} SET TABLESPACE {}").format(table, space))
        stream.send_orders(6_000)
        ends(stream, spark, "No space left on device")
        _run("mount", "-o", "remount,size=50m", str(disk))
        stream.run(spark)
        assert warehouse.problems(stream) == []


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _of_the_server(stack: Stack, statement: Composable) -> None:
    with closing(stack.postgres.connect("postgres")) as connection:
        connection.autocommit = True  # outside of a transaction
        connection.cursor().execute(statement)


def _orders(stack: Stack, stream: WarehouseStream, database: str) -> int:
    with closing(stack.postgres.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(SQL("SELECT sum(orders) FROM public.{}").format(Identifier(stream.name)))
        return int((cursor.fetchone() or (0,))[0])
