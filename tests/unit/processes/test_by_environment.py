"""Processes are found by what they carry in their environment, and told from strangers and from the dead."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from include.processes.by_environment import find_processes, find_values, session_leader
from include.processes.process_record import ProcessRecord, boot_id, is_zombie, start_ticks
from tests.running import wait_for

SHELL = [sys.executable, "-c", "import subprocess, sys; subprocess.run(['sleep', '60'])"]


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def started(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child, in a session of its own."""
    process = subprocess.Popen(SHELL, env={**os.environ, "MARK": mark, "WHAT": f"it {mark}"}, start_new_session=True)
    wait_for("its child", lambda: len(find_processes(MARK=mark)) == 2)
    yield process
    for pid in find_processes(MARK=mark):
        os.kill(pid, signal.SIGKILL)
    process.wait(10)


def test_a_process_and_its_child_are_found(started: subprocess.Popen[bytes], mark: str) -> None:
    assert started.pid in find_processes(MARK=mark)
    assert find_processes(MARK=mark, WHAT="another") == []
    assert find_values("WHAT", MARK=mark) == {f"it {mark}"}
    leader = session_leader(find_processes(MARK=mark))
    assert leader is not None
    assert leader.pid == started.pid
    assert leader.is_alive()


def test_a_zombie_is_not_found_and_not_alive(started: subprocess.Popen[bytes], mark: str) -> None:
    record = ProcessRecord(started.pid, start_ticks(started.pid) or 0, boot_id(), 0)
    started.kill()  # and not waited for: its parent, which we are, has not collected it
    wait_for("it to be a zombie", lambda: is_zombie(started.pid))
    assert start_ticks(started.pid) is not None
    assert not record.is_alive()
    assert started.pid not in find_processes(MARK=mark)
    assert session_leader(find_processes(MARK=mark)) is None  # its child lives on


def test_a_stranger_with_the_same_pid_is_not_taken_for_it(started: subprocess.Popen[bytes]) -> None:
    earlier = (start_ticks(started.pid) or 0) - 1
    assert not ProcessRecord(started.pid, earlier, boot_id(), 0).is_alive()
    assert not ProcessRecord(started.pid, earlier + 1, "another boot", 0).is_alive()
