"""Drivers that Airflow has started on this stack: they have Unix sessions of their own, so they are found by what they carry."""

import os
import signal
import time
from contextlib import suppress

import psutil

from include.contract.identity import LAUNCH_VARIABLE
from include.local_stack.home import StackHome
from include.processes.by_environment import find_processes, find_values, kill_processes, session_leader

STOP_PATIENCE_SECONDS = 20  # for the batch in hand; past it they are killed, which is safe
JOB = "run_stream.py"


def running_drivers(home: StackHome) -> set[str]:
    """Their launch ids."""
    return find_values(LAUNCH_VARIABLE, TIDEMARK_HOME=str(home.folder))


def stop_drivers(home: StackHome) -> None:
    """Only Python is asked: a signal to the JVM would end it in the middle of the batch in hand."""
    for launch in running_drivers(home):
        for pid in python_of(find_processes(**{LAUNCH_VARIABLE: launch})):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE_SECONDS
    while launches := running_drivers(home):
        if time.monotonic() > deadline:
            for launch in launches:
                kill_processes(**{LAUNCH_VARIABLE: launch})
        time.sleep(0.1)


def python_of(pids: list[int]) -> list[int]:
    """Of a driver's processes those that run the job itself."""
    leader = session_leader(pids)
    return [pid for pid in pids if (leader is None or pid != leader.pid) and _runs_the_job(pid)]


def _runs_the_job(pid: int) -> bool:
    try:
        return any(part.endswith(JOB) for part in psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return False
