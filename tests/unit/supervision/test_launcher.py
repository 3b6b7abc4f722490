"""The launcher, with real processes that are not Spark: detached, found again, ended as a whole, logs rotated."""

import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from include.control.drivers import DriverProcess
from include.processes.by_environment import find_processes
from include.processes.process_record import ProcessRecord
from include.supervision import launcher as launcher_module
from include.supervision.launcher import Command, DetachedLauncher
from include.supervision.scratch import in_scratch
from tests.running import PROJECT, wait_for

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT)}
PARENT_AND_CHILD = "import subprocess; print('begun', flush=True); subprocess.run(['sleep', '60'])"


@pytest.fixture
def launch() -> Iterator[str]:
    launch = uuid.uuid4().hex
    yield launch
    for pid in find_processes(TIDEMARK_LAUNCH=launch):
        os.kill(pid, 9)


@pytest.fixture
def launcher(tmp_path: Path) -> DetachedLauncher:
    def build(stream: str, launch: str) -> Command:
        return Command([sys.executable, "-c", PARENT_AND_CHILD], ENVIRONMENT)

    return DetachedLauncher(build, tmp_path / "drivers", tmp_path / "logs", tmp_path / "scratch")


def recorded(process: ProcessRecord, host: str | None = None) -> DriverProcess:
    return DriverProcess(host or socket.gethostname(), process, True, datetime.now(UTC))


def test_a_driver_has_a_session_of_its_own_and_is_found_again(launcher: DetachedLauncher, launch: str) -> None:
    process = launcher.start("orders", launch)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    assert launcher.is_alive(recorded(process))
    found = launcher.find(launch)
    assert found is not None
    assert (found.pid, found.start_ticks) == (process.pid, process.start_ticks)
    assert launcher.find("another") is None


def test_a_kill_ends_its_children_too(launcher: DetachedLauncher, launch: str) -> None:
    process = launcher.start("orders", launch)
    wait_for("its child", lambda: len(find_processes(TIDEMARK_LAUNCH=launch)) == 2)
    launcher.kill(launch)
    assert find_processes(TIDEMARK_LAUNCH=launch) == []
    assert not launcher.is_alive(recorded(process))
    launcher.kill(launch)  # again: nothing to do


def test_a_driver_on_another_host_cannot_be_judged_from_here(launcher: DetachedLauncher, launch: str) -> None:
    assert launcher.is_alive(recorded(launcher.start("orders", launch), host="elsewhere")) is None


def test_output_goes_to_a_log_that_is_rotated(
    launcher: DetachedLauncher, launch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.start("orders", launch)
    first = tmp_path / "logs" / "orders" / f"launch-{launch}.log"
    wait_for("its output", lambda: first.read_text() == "begun\n")
    log = first.rename(tmp_path / "logs" / "orders" / "g000007.log")
    launcher.rotate_log("orders", 7)
    assert log.read_text() == "begun\n", "a small log is left alone"
    monkeypatch.setattr(launcher_module, "LOG_BYTES_KEPT", 3)
    launcher.rotate_log("orders", 7)
    assert (log.read_text(), log.with_suffix(".log.1").read_text()) == ("", "begun\n")
    launcher.rotate_log("orders", 8)  # there is none: nothing to do


def test_a_driver_is_nobodys_child(launcher: DetachedLauncher, launch: str) -> None:
    """So no task collects it, and none takes it along when it is killed."""
    process = launcher.start("orders", launch)
    assert psutil.Process(process.pid).ppid() != os.getpid()


def test_what_a_killed_driver_has_left_goes_with_the_next_start_and_what_a_living_one_has_stays(
    launcher: DetachedLauncher, launch: str, tmp_path: Path
) -> None:
    of_stream = tmp_path / "scratch" / socket.gethostname() / "orders"
    of_the_dead = of_stream / "killed" / "spark-1" / "StateStoreId"
    of_the_dead.mkdir(parents=True)
    launcher.start("orders", launch)
    assert list(of_stream.iterdir()) == [of_stream / launch]
    other = uuid.uuid4().hex
    launcher.start("orders", other)
    assert set(of_stream.iterdir()) == {of_stream / launch, of_stream / other}
    launcher.kill(other)


def test_what_a_person_asks_of_the_jvm_is_kept_and_any_place_can_be_told() -> None:
    told = in_scratch({"SPARK_SUBMIT_OPTS": "-Dmine=1", "HOME": "/root"}, Path('/où, "with" a space'))
    assert told["SPARK_SUBMIT_OPTS"] == r'-Dmine=1 -Djava.io.tmpdir="/où, \"with\" a space"'
    assert (told["SPARK_EXECUTOR_DIRS"], told["HOME"]) == ('/où, "with" a space', "/root")


def test_nothing_secret_is_on_its_command_line(tmp_path: Path, launch: str) -> None:
    command = Command(["sleep", "60"], {**ENVIRONMENT, "PASSWORD": "hidden"})
    launcher = DetachedLauncher(lambda *_: command, tmp_path, tmp_path, tmp_path)
    process = launcher.start("orders", launch)
    time.sleep(0.1)
    assert b"hidden" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
