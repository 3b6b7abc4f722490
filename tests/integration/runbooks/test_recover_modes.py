"""`recover_stream` in each of its modes: what it plans, what has to be approved, and that the stream delivers after it.

Without Airflow, which only carries the steps; the driver runs in this process. Losses are `test_runbooks`' part.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.contract.environment import load_environment
from include.control.database import ControlDatabase
from include.control.drivers import DriverProcess
from include.local_stack.stack import Stack
from include.processes.process_record import ProcessRecord, own_record
from include.supervision.ground import Ground
from include.supervision.runbooks.registry import RUNBOOKS
from include.supervision.runbooks.request import Request, RequestRefused
from jobs.driver_arguments import parse
from jobs.run_stream import Driver
from tests.streams import Running, TrialStream


class InThisProcess:
    """A launcher whose drivers are threads: all that it starts is real but the process."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.drivers: dict[str, Running] = {}

    def start(self, stream: str, launch: str) -> ProcessRecord:
        self.drivers[launch] = Running(Driver(parse([stream, "--launch", launch])), self._spark)
        return own_record()

    def find(self, launch: str) -> ProcessRecord | None:
        return own_record() if launch in self.drivers else None

    def is_alive(self, driver: DriverProcess) -> bool | None:
        return driver.process.is_alive()

    def kill(self, launch: str) -> None:
        self.drivers[launch].stop()

    def rotate_log(self, stream: str, generation: int) -> None:
        """A thread has no log of its own."""


class Desk:
    """Where the person on call sits."""

    def __init__(self, ground: Ground, stream: TrialStream) -> None:
        self._ground = ground
        self._stream = stream
        self._runs = 0

    def run(self, runbook: str, mode: str = "") -> str:
        """Plans, approves what is to be approved, acts and verifies; the plan's text."""
        self._runs += 1
        request = Request(runbook, f"run {self._runs}", "somebody", "a try", self._stream.name, mode)
        steps = RUNBOOKS[runbook]
        steps.check(self._ground, request)
        planned = steps.plan(self._ground, request)
        acted = steps.act(self._ground, request, planned, "somebody else" if planned.needs_approval else None)
        steps.verify(self._ground, request, acted)
        return planned.text


@pytest.fixture
def stream(stack: Stack, own_control: ControlDatabase, tmp_path: Path) -> Iterator[TrialStream]:
    """With a control database of its own: the stack's supervision must not look after it too."""
    stream = TrialStream(stack, tmp_path, own_control=own_control)
    with stream.environment():
        yield stream


@pytest.fixture
def desk(stream: TrialStream, own_control: ControlDatabase, spark: SparkSession) -> Iterator[Desk]:
    launcher = InThisProcess(spark)
    yield Desk(Ground(load_environment(), own_control, launcher), stream)
    for driver in launcher.drivers.values():
        driver.stop()


def test_each_mode_mends_its_own_trouble_and_nothing_else(stream: TrialStream, desk: Desk) -> None:
    stream.send(60)
    desk.run("start_stream")
    stream.wait_until_delivered()

    desk.run("stop_stream")
    shutil.rmtree(stream.checkpoints)
    assert "**SAFE**" in desk.run("recover_stream", "rebuild")
    assert [folder.name for folder in stream.checkpoints.iterdir()] == ["c000002"]

    desk.run("stop_stream")
    DeltaTable(stream.table).delete("_partition = 0 AND _offset = 5")
    del stream.sent[0, 5]
    with pytest.raises(RequestRefused, match="Somebody's DELETE removed"):
        desk.run("recover_stream", "rebuild")
    assert "**NEEDS APPROVAL**" in desk.run("recover_stream", "accept_change")
    rows = {(row["_partition"], row["_offset"]) for row in stream.rows()}
    assert rows == set(stream.sent)

    desk.run("stop_stream")
    stream.remake_topic()
    stream.sent.clear()
    stream.send(30)
    with pytest.raises(RequestRefused, match="The topic was made anew"):
        desk.run("recover_stream", "accept_change")
    assert "The topic was made anew" in desk.run("recover_stream", "new_topic")
    assert stream.problems(epoch=2) == []
    with pytest.raises(RequestRefused, match="There is nothing to accept by mode new_topic"):
        desk.run("recover_stream", "new_topic")
