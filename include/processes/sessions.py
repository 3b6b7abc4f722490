"""Detached processes: started in a Unix session of their own, found again by their record, stopped as a session."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from include.contract.errors import TidemarkError
from include.processes.interruptions import held_back
from include.processes.process_record import ProcessRecord, is_zombie, start_ticks

LOG_BYTES_KEPT = 20_000_000  # a log above this is moved to .1 at the next start
SECONDS_TO_DIE = 10  # after SIGKILL; only a process stuck in the kernel needs longer


class StillAlive(TidemarkError):
    """A process that outlived SIGKILL."""


def start_detached(command: list[str], environment: dict[str, str], folder: Path, log: Path, record: Path) -> None:
    """Returns when the process has written its own record and runs `command` (see `become`), or has failed to."""
    if log.exists() and log.stat().st_size > LOG_BYTES_KEPT:
        log.replace(log.with_suffix(".log.1"))
    record.unlink(missing_ok=True)
    with log.open("ab") as output, held_back():  # Ctrl-C between fork and record would leave a process that nobody knows
        subprocess.run(
            [sys.executable, "-m", "include.processes.become", str(os.getpid()), str(record), *command],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,  # a part that could not start shows as dead, with the reason in its log
        )


def ask_to_stop(leader: ProcessRecord, gentle: signal.Signals) -> bool:
    """False if it had died."""
    if not leader.is_alive():
        return False
    with suppress(ProcessLookupError):
        os.kill(leader.pid, gentle)
    return True


def wait_for_end(leader: ProcessRecord, patience_seconds: float, waited_seconds: float = 0) -> str:
    """Returns how it ended; `kill_all` ends what did not."""
    if _wait_until(lambda: not leader.is_alive(), max(0, patience_seconds - waited_seconds)):
        return "stopped"
    return f"killed after {patience_seconds:.0f} s without an answer"


def kill_all(living: Callable[[], list[psutil.Process]]) -> None:
    for process in living():
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if not _wait_until(lambda: not living(), SECONDS_TO_DIE):
        raise StillAlive(
            f"Process {living()[0].pid} is still there {SECONDS_TO_DIE} s after SIGKILL.",
            state="Its record is kept.",
            next_step="It hangs in the kernel, most likely on a disk: see `dmesg`, then run `make down` again.",
        )


def session_members(leader: ProcessRecord) -> list[psutil.Process]:
    """Living processes of the leader's session, whether or not it lives itself; never those of a stranger with its pid."""
    if not leader.is_current:
        return []
    return [process for process in psutil.process_iter() if _belongs(process.pid, leader) and not is_zombie(process.pid)]


def _belongs(pid: int, leader: ProcessRecord) -> bool:
    try:
        return os.getsid(pid) == leader.pid and (start_ticks(pid) or 0) >= leader.start_ticks
    except ProcessLookupError:
        return False


def processes_of_program(program: Path, folder: Path) -> list[psutil.Process]:
    """Living processes that run this very program in this very folder."""
    return [process for process in psutil.process_iter() if _is_at(process.pid, program.resolve(), folder.resolve())]


def _is_at(pid: int, program: Path, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink() == program and Path(f"/proc/{pid}/cwd").readlink() == folder
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def _wait_until(condition: Callable[[], bool], patience_seconds: float) -> bool:
    deadline = time.monotonic() + patience_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
