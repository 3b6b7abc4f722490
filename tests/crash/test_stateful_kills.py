"""Drivers of a stateful stream are killed with their JVM (SIGKILL), and the state is continued or made again: windows hold what
plain arithmetic says (P6)."""

import random
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from tests.integration.stateful.test_recovery import FIRST, SECOND, THIRD
from tests.payments import TIMED, WINDOWS, Event, send, totals, totals_there, windows_sink
from tests.streams import TrialStream

# A snapshot of the state after every batch, and its upkeep five times a second: a kill at any time is likely to come in it.
BUSY_UPKEEP = (
    "--conf spark.sql.streaming.stateStore.maintenanceInterval=200ms"
    " --conf spark.sql.streaming.stateStore.minDeltasForSnapshot=1"
    " --conf spark.sql.streaming.minBatchesToRetain=2 pyspark-shell"
)
KILLS = 3


@pytest.mark.thorough("state.after_consumed=kill-none", "state.after_consumed=kill@2-same", "sink.after_commit=kill-none")
@pytest.mark.parametrize("left", ["same", "none"])
@pytest.mark.parametrize("kill", ["state.after_consumed=kill", "state.after_consumed=kill@2", "sink.after_commit=kill"])
def test_a_killed_driver_loses_nothing_of_its_state(
    kill: str, left: str, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    trial = _windows(stack, tmp_path)
    send(trial, FIRST)
    trial.run(spark)
    send(trial, SECOND)
    killed = trial.start(failpoint=kill)
    assert killed.wait(120) == -signal.SIGKILL, trial.log()
    if left == "none":
        shutil.rmtree(trial.checkpoints)
    send(trial, THIRD)
    trial.run(spark)
    assert totals_there(trial, spark) == totals([*FIRST, *SECOND, *THIRD])


@pytest.mark.thorough
def test_a_driver_that_dies_while_spark_keeps_its_state_up_loses_nothing(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, chance = _windows(stack, tmp_path), random.Random(4)  # noqa: S311 - no secret
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", BUSY_UPKEEP)
    sent: list[Event] = []
    for life in range(KILLS):
        driver = trial.start()
        until = time.monotonic() + 25 + chance.uniform(0, 8)
        while time.monotonic() < until:
            minute = life * 8 + chance.uniform(0, 8)
            portion = [Event(f"e{chance.getrandbits(40):x}", f"u{n % 3}", minute, partition=n % 3) for n in range(20)]
            portion += [Event(event.id, event.user, event.minute, partition=1) for event in sent[-20:]]
            send(trial, portion)
            sent += portion
            time.sleep(0.5)
        _kill(driver.pid)
        driver.wait(30)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    trial.run(spark)
    assert totals_there(trial, spark) == totals(sent)


def _windows(stack: Stack, folder: Path) -> TrialStream:
    trial = TrialStream(stack, folder)
    trial.write_file(**TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    return trial


def _kill(pid: int) -> None:
    """The JVM first: it is the child of its Python."""
    process = psutil.Process(pid)
    for one in (*process.children(recursive=True), process):
        one.kill()
