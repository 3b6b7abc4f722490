"""Drivers that sleep while another takes over, and executors that die: PostgreSQL's side of P1 and P5."""

import signal
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from tests.crash.test_postgres_matrix import copying
from tests.running import wait_for
from tests.warehouse import Warehouse, WarehouseStream
from tests.warm_jvm import lent

PLACES = {
    "before staging": f"{Failpoint.BEFORE_WRITE}=stop@2",
    "in its transaction": f"{Failpoint.IN_TRANSACTION}=stop@4",
    "after staging": f"{Failpoint.IN_WRITE}=stop@2",
}


@pytest.mark.thorough("before staging", "after staging")
@pytest.mark.parametrize("place", PLACES)
def test_a_driver_that_sleeps_is_fenced(
    place: str, stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    """In its transaction it holds the owner's row: the newer one ends its session. Before staging, its executors will find no
    table to copy into. When it wakes it learns why."""
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals")
    stream.send_orders(700)
    with lent(spark) as jvm:
        sleeper = stream.start(failpoint=PLACES[place], jvm=jvm)
        wait_for("the first driver to stop", lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED, 60)
        stream.run(spark)
        before = warehouse.booked(stream)
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(60) == ExitClass.FENCED.code, stream.log()
    assert warehouse.booked(stream) == before
    assert warehouse.problems(stream) == []
    assert stack.postgres.connection("warehouse").password not in stream.log()


def test_an_executor_that_dies_inside_its_copy_adds_nothing_twice(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals")
    stream.send_orders(300)
    with lent(spark) as jvm:
        driver = stream.start(failpoint=f"{Failpoint.IN_COPY}=stop", jvm=jvm)
        wait_for("an executor to stop inside its COPY", lambda: bool(copying(warehouse)), 120)
        for worker in copying(warehouse):
            worker.kill()
        assert driver.wait(60) == ExitClass.INFRASTRUCTURE.code, stream.log()
    stream.run(spark)
    assert warehouse.problems(stream) == []
