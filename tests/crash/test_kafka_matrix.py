"""A stream into a topic, killed (SIGKILL) at every boundary and started again: a plain consumer reads every record once.

`make test` tries each boundary once; `make crash-matrix` each of them with every way of starting again.
"""

import os
import signal
from contextlib import nullcontext, suppress
from pathlib import Path
from subprocess import Popen

import psutil
import pytest
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import VARIABLE, Failpoint
from tests.crash.matrix_page import every, pairwise
from tests.outputs import OutputStream
from tests.running import wait_for
from tests.warm_jvm import lent

BETWEEN_SLOTS = "between two slots"
BOUNDARIES = {
    "before any record": f"{Failpoint.BEFORE_SLOT}=stop",
    "after the records": f"{Failpoint.AFTER_OUTPUTS}=stop",
    "after records and marks": f"{Failpoint.AFTER_MARKS}=stop",
    BETWEEN_SLOTS: f"{Failpoint.AFTER_MARKS}=stop",
    "after all slots": f"{Failpoint.BEFORE_TELLING}=kill@1",
    "after the commit": f"{Failpoint.AFTER_COMMIT}=kill@1",
}
IS_WHOLE = "TIDEMARK_MATRIX" in os.environ
CASES = [(place, restart) for _, place, restart in (every if IS_WHOLE else pairwise)(["kafka"], list(BOUNDARIES))]
WITH_ITS_JVM = "as it was"  # in the whole matrix; otherwise only the Python of a driver and its executors dies


@pytest.mark.parametrize(("boundary", "restart"), CASES)
def test_nothing_is_lost_or_sent_twice(boundary: str, restart: str, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path, partitions=4)
    stream.send(200)
    stream.run(spark)
    for _ in range(2 if restart == "killed there again" else 1):
        stream.send(400, bad=2, filtered=5)
        with nullcontext() if IS_WHOLE and restart == WITH_ITS_JVM else lent(spark) as jvm:
            _kill(stream.start(failpoint=BOUNDARIES[boundary], jvm=jvm), boundary, stream, BOUNDARIES[boundary])
    stream.send(100)
    if restart == "with larger batches":
        stream.write_file(source__max_records_per_batch=5_000)
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked()["read"] == len(stream.sent)


def _kill(driver: Popen[bytes], boundary: str, stream: OutputStream, failpoint: str) -> None:
    if failpoint.endswith("=stop"):
        workers = _stopped_workers(failpoint)
        if boundary == BETWEEN_SLOTS:
            before = len(stream.marks())  # its outputs lie behind those of the slot that is still open
            workers[0].resume()
            wait_for("one slot to commit", lambda: len(stream.marks()) > before, 60)
        tree = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
        for process in [*tree, *workers]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    assert driver.wait(60) == -signal.SIGKILL, stream.log()


def _stopped_workers(failpoint: str) -> list[psutil.Process]:
    """The Python of both slots, each of which comes by; told from those of other tests by their failpoint."""

    def found() -> list[psutil.Process]:
        stopped = [one for one in psutil.process_iter(["status"]) if one.info["status"] == psutil.STATUS_STOPPED]
        return [one for one in stopped if _environment(one).get(VARIABLE) == failpoint]

    wait_for("both slots to stop", lambda: len(found()) >= 2, 120)
    return found()


def _environment(process: psutil.Process) -> dict[str, str]:
    with suppress(psutil.Error):
        return process.environ()
    return {}


def test_an_executor_that_dies_with_an_open_slot_sends_nothing_twice(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path)
    stream.send(300)
    with lent(spark) as jvm:
        driver = stream.start(failpoint=f"{Failpoint.AFTER_MARKS}=stop@1", jvm=jvm)
        for worker in _stopped_workers(f"{Failpoint.AFTER_MARKS}=stop@1"):
            worker.kill()
        assert driver.wait(60) == ExitClass.INFRASTRUCTURE.code, stream.log()
    stream.run(spark)
    assert stream.problems_of_outputs() == []
