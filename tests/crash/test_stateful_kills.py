"""Drivers of a stateful stream are killed with their JVM (SIGKILL), and the state is continued, restored or made again: windows
hold what plain arithmetic says (P6)."""

import itertools
import signal
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from tests.integration.stateful.test_recovery import BACKUP, FIRST, NONE, SAME, SECOND, THIRD, go_on
from tests.payments import TIMED, WINDOWS, Event, send, totals, totals_there, windows_sink
from tests.running import wait_for
from tests.streams import TrialStream

FILE = {**TIMED, "aggregate": WINDOWS}
# A snapshot of the state after every batch, and its upkeep five times a second.
BUSY_UPKEEP = (
    "--conf spark.sql.streaming.stateStore.maintenanceInterval=200ms"
    " --conf spark.sql.streaming.stateStore.minDeltasForSnapshot=1"
    " --conf spark.sql.streaming.minBatchesToRetain=2 pyspark-shell"
)
FAILPOINTS = {
    "after the state was consumed": "state.after_consumed=kill",
    "in a batch without records": "state.after_consumed=kill@2",
    "between the sink's commit and Spark's log": "sink.after_commit=kill",
}
HALF_WRITTEN = {  # Spark writes beside a file's place and renames it
    "in the middle of a batch": ".*.changelog.*.tmp",  # what the batch changes in the state
    "in state maintenance": ".*.zip.*.tmp",  # a snapshot of the state
}
CATCH_SECONDS = 300  # on two busy cores it has taken more than a minute
WAYS = (SAME, BACKUP, NONE)
IN_THE_GATE = {
    ("in the middle of a batch", BACKUP),
    ("in a batch without records", NONE),
    ("between the sink's commit and Spark's log", SAME),
}


@pytest.mark.parametrize(
    ("kill", "way"),
    [
        pytest.param(*case, id=", ".join(case), marks=() if case in IN_THE_GATE else pytest.mark.thorough)
        for case in itertools.product([*FAILPOINTS, *HALF_WRITTEN], WAYS)
    ],
)
def test_a_killed_driver_loses_nothing_of_its_state(
    kill: str, way: str, stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = TrialStream(stack, tmp_path)
    file = {**FILE, "sinks": windows_sink(trial.name)}
    trial.write_file(**file)
    send(trial, FIRST)
    trial.run(spark)
    send(trial, SECOND)
    if kill in FAILPOINTS:
        more: list[Event] = []
        killed = trial.start(failpoint=FAILPOINTS[kill])
        assert killed.wait(120) == -signal.SIGKILL, trial.log()
    else:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", BUSY_UPKEEP)
        more = kill_in_the_middle_of(trial, HALF_WRITTEN[kill])
        monkeypatch.delenv("PYSPARK_SUBMIT_ARGS")
    go_on(trial, spark, way, **file)
    assert totals_there(trial, spark) == totals([*FIRST, *SECOND, *more, *THIRD])


def kill_in_the_middle_of(trial: TrialStream, half_written: str) -> list[Event]:
    """Kills a driver while such a file is there. Returns what was sent meanwhile, so that there are batches."""
    driver, sent = trial.start(), []
    until = time.monotonic() + CATCH_SECONDS
    while time.monotonic() < until:
        assert driver.poll() is None, trial.log()
        portion = [Event(f"m{len(sent)}-{n}", f"u{n}", 29.75, partition=n) for n in range(3)]
        send(trial, portion)
        sent += portion
        if half := _caught(driver.pid, [*trial.checkpoints.glob("c*/state/[0-9]*/[0-9]*")], half_written):
            driver.kill()
            driver.wait(30)
            assert half.exists()
            return sent
    raise AssertionError(f"no {half_written} was seen in {CATCH_SECONDS} s\n{trial.log()}")


def _caught(driver: int, folders: list[Path], half_written: str) -> Path | None:
    """Looks for a second, without a pause: such a file is there for a millisecond. Seen, the JVM's time is stopped; if it was
    quicker, it goes on; if not, it is killed."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        for file in (file for folder in folders for file in folder.glob(half_written)):
            jvm = next(one for one in psutil.Process(driver).children() if one.name() == "java")
            jvm.suspend()
            wait_for("all its threads to stand still", lambda pid=jvm.pid: _stands_still(pid))
            if file.exists():
                jvm.kill()
                return file
            jvm.resume()
    return None


def _stands_still(pid: int) -> bool:
    """What a thread is doing in the kernel it does to its end."""
    try:
        return all("State:\tT" in (thread / "status").read_text() for thread in Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # that was its end
        return False
