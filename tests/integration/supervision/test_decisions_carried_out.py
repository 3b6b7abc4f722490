"""Supervision on PostgreSQL and Kafka alone, without Airflow's scheduler: crash windows, crash loop, stuck, outage, hopeless."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from include.contract.exit_class import ExitClass
from include.local_stack.drivers import stop_drivers
from include.local_stack.home import StackHome
from include.local_stack.stack import Stack
from tests.running import PROJECT, wait_for
from tests.supervised import SupervisedStream


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(StackHome(tmp_path_factory.mktemp("ground") / "a stack"), with_airflow=False)
    try:
        stack.home.config.mkdir(parents=True)
        stack.up()
        yield stack
    finally:
        stack.down()


@pytest.fixture
def stream(ground: Stack, tmp_path: Path) -> Iterator[SupervisedStream]:
    stream = SupervisedStream(ground, tmp_path, config=ground.home.config)
    yield stream
    stream.want(running=False)
    stop_drivers(ground.home)
    (stream.config / "streams" / f"{stream.name}.yaml").unlink()


def environment(stack: Stack, **more: str) -> dict[str, str]:
    return {**stack.job_environment(), "AIRFLOW_HOME": str(stack.home.data("airflow")), **more}


@contextmanager
def supervising(stack: Stack, *arguments: str, **more: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tests.supervise_alone", *(arguments or ("1000",))]
    with (stack.home.folder / "supervision.log").open("a") as log:
        process = subprocess.Popen(command, cwd=PROJECT, env=environment(stack, **more), stdout=log, stderr=log, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.thorough("before_start")
@pytest.mark.parametrize("when", ["before_start", "after_start"])
def test_a_supervisor_that_dies_at_a_launch_leads_to_one_driver(when: str, stream: SupervisedStream, ground: Stack) -> None:
    """Between the intent and the process, or between the process and its record."""
    stream.send(60)
    with supervising(ground, "3", "--die", when) as dying:
        assert dying.wait(60) == -9
    begun = stream.living_launches()
    assert len(begun) == (1 if when == "after_start" else 0)
    with supervising(ground):
        stream.wait_until_delivered()
        driver = stream.wait_until_driven()
    if when == "after_start":
        assert begun == {driver.launch}, "the driver whose start was not recorded was found"
    else:
        assert stream.ends()[0].exit_class is ExitClass.INFRASTRUCTURE


def test_five_ends_of_one_class_stop_the_stream_with_an_incident(stream: SupervisedStream, ground: Stack) -> None:
    """Drivers that die at once, for want of a Java."""
    with supervising(ground, JAVA_HOME=str(ground.home.folder / "no such folder")):
        wait_for("supervision to give up", lambda: bool(stream.incidents()), 180)
    (incident,) = stream.incidents()
    assert incident.title == "killed"
    assert "5 ends as killed within 10 minutes" in incident.happened
    assert len(stream.ends()) == 5
    gaps = [later.asked_at - earlier.ended_at for later, earlier in pairwise(stream.ends())]
    pauses = [gap.total_seconds() for gap in reversed(gaps)]
    assert pauses[0] < 5, "the first restart is immediate"
    assert all(pause >= least for pause, least in zip(pauses, (0, 5, 10, 20), strict=True)), pauses
    with supervising(ground, "2") as passing:
        assert passing.wait(60) == 0
    state = stream.state()
    assert state is not None
    assert state.state == "stopped"
    assert stream.living_launches() == set()


def test_a_stuck_driver_is_restarted_once_then_an_incident_is_opened(stream: SupervisedStream, ground: Stack) -> None:
    stream.write_file(health__stuck_after="3 seconds")
    stream.send(30)
    with supervising(ground, TIDEMARK_FAILPOINT="sink.before_commit=sleep"):
        wait_for("the incident", lambda: bool(stream.incidents()), 240)
        assert [end.exit_class for end in stream.ends()] == [ExitClass.STUCK]
        assert stream.incidents()[0].title == "stuck"
        assert len(stream.living_launches()) == 1, "the second is left to be looked at"


def test_a_start_that_no_restart_mends_is_tried_once(stream: SupervisedStream, ground: Stack) -> None:
    stream.write_file(select={"day": "date(ts)", "wrong": "date_add(note, ts)"})
    stream.send(30)
    with supervising(ground):
        wait_for("supervision to give up", lambda: bool(stream.incidents()), 120)
    assert [end.exit_class for end in stream.ends()] == [ExitClass.CONFIGURATION]
    assert stream.incidents()[0].title == "configuration"


def test_a_launch_that_cannot_be_made_is_tried_once(stream: SupervisedStream, ground: Stack) -> None:
    cluster = '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "cluster"}}'
    with supervising(ground, AIRFLOW_CONN_SPARK_MAIN=cluster):
        wait_for("supervision to give up", lambda: bool(stream.incidents()), 60)
    assert [end.exit_class for end in stream.ends()] == [ExitClass.CONFIGURATION]
    assert "drivers run in client mode" in stream.incidents()[0].happened


def test_nothing_is_started_while_the_broker_is_down(stream: SupervisedStream, ground: Stack) -> None:
    ground.kafka.stop()
    try:
        with supervising(ground):
            stream.wait_for_state("waiting")
            assert stream.launches() == [] == stream.ends()
            ground.up()
            stream.send(30)
            stream.wait_until_delivered()
    finally:
        ground.up()


def test_a_control_database_that_is_down_stops_no_stream(stream: SupervisedStream, ground: Stack) -> None:
    stream.send(30)
    with supervising(ground) as supervisor:
        stream.wait_until_delivered()
        driver = stream.wait_until_driven()
        ground.postgres.stop()
        try:
            stream.send(30)
            stream.wait_until_delivered()
        finally:
            ground.up()
        assert supervisor.poll() is None
        assert stream.wait_until_driven() == driver
        assert stream.ends() == []


def test_the_file_of_a_running_stream_may_change_or_go(stream: SupervisedStream, ground: Stack) -> None:
    with supervising(ground):
        driver = stream.wait_until_driven()
        stream.write_file(select={"day": "date(ts)", "more": "amount + 1"})
        wait_for("the change to be seen", lambda: "has changed" in detail(stream), 30)
        file = stream.config / "streams" / f"{stream.name}.yaml"
        file.rename(stream.folder / "kept.yaml")
        wait_for("its absence to be seen", lambda: "is gone" in detail(stream), 30)
        assert stream.driver() == driver
        (stream.folder / "kept.yaml").rename(file)


def detail(stream: SupervisedStream) -> str:
    state: Any = stream.state()
    return str(state.detail) if state else ""
