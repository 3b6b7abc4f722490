"""Two drivers of a stream that merges: one sleeps while another takes over, or both start at once (P1)."""

import signal
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from tests.crash.test_lake_matrix import FAN_OUT, MERGE, stream_of, wrong
from tests.crash.test_two_drivers import both_start_at_once
from tests.latest import LatestStream
from tests.running import wait_for
from tests.warehouse import Warehouse
from tests.warm_jvm import lent


@pytest.mark.thorough("merge")
@pytest.mark.parametrize("shape", [MERGE, FAN_OUT])
def test_a_driver_that_slept_before_its_commit_ends_as_fenced_and_changes_nothing(
    shape: str, stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    """Its files and marks are written; the newer one has replaced rows of the same keys meanwhile."""
    stream = stream_of(shape, stack, tmp_path)
    assert isinstance(stream, LatestStream)
    stream.send_orders(700)
    with lent(spark) as jvm:
        sleeper = stream.start(failpoint=f"{Failpoint.BEFORE_COMMIT}=stop@2", jvm=jvm)
        wait_for("the driver to stop", lambda: psutil.Process(sleeper.pid).status() == psutil.STATUS_STOPPED, 120)
        stream.send_orders(300)
        stream.run(spark)
        before = stream.booked()
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(60) == ExitClass.FENCED.code, stream.log()
    assert stream.booked() == before
    assert wrong(stream, shape, warehouse) == []


@pytest.mark.thorough
def test_of_two_starts_at_once_one_wins(stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    stream = stream_of(FAN_OUT, stack, tmp_path)
    assert isinstance(stream, LatestStream)
    stream.send_orders(400)
    outcomes = both_start_at_once(stream, spark)
    assert len(outcomes) == 2
    assert "delivered" in outcomes
    assert wrong(stream, FAN_OUT, warehouse) == []
