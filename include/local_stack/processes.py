"""Detached processes that can be found again: started in a Unix session of their own, recorded, stopped as a session.

A record holds the pid and the kernel's start time of that pid, so a stale record never points to a stranger.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

INTERRUPTIONS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
LOG_BYTES_KEPT = 20_000_000  # a log above this is moved to .1 at the next start


@dataclass(frozen=True)
class ProcessRecord:
    pid: int
    start_ticks: int  # field 22 of /proc/PID/stat: unlike a wall clock time it never shifts

    def is_alive(self) -> bool:
        return start_ticks(self.pid) == self.start_ticks and not _is_zombie(self.pid)

    def age_seconds(self) -> float:
        return time.time() - psutil.Process(self.pid).create_time()


def start_detached(command: list[str], environment: dict[str, str], folder: Path, log: Path, record: Path) -> None:
    """Returns when the process has written its own record and runs `command` (see `become_part`), or has failed to."""
    if log.exists() and log.stat().st_size > LOG_BYTES_KEPT:
        log.replace(log.with_suffix(".log.1"))
    record.unlink(missing_ok=True)
    with log.open("ab") as output, _no_interruption():
        subprocess.run(
            [sys.executable, "-m", "include.local_stack.become_part", str(record), *command],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,  # a part that could not start shows as dead, with the reason in its log
        )


@contextmanager
def _no_interruption() -> Iterator[None]:
    """Ctrl-C between the fork and the record would leave a process that nobody knows; it is delivered right after."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def read_record(file: Path) -> ProcessRecord | None:
    try:
        return ProcessRecord(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None


def start_ticks(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def stop_gently(leader: ProcessRecord, gentle: signal.Signals, patience_seconds: float) -> str:
    """Asks the leader and waits. Returns how it ended; `kill_all` ends what did not."""
    if not leader.is_alive():
        return "had died"
    os.kill(leader.pid, gentle)
    if _wait_until(lambda: not leader.is_alive(), patience_seconds):
        return "stopped"
    return f"killed after {patience_seconds:.0f} s without an answer"


def kill_all(living: Callable[[], list[psutil.Process]]) -> None:
    for process in living():
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _wait_until(lambda: not living(), patience_seconds=10)


def session_members(session: int) -> list[psutil.Process]:
    """Living processes of a Unix session, whether or not its leader still lives."""
    return [process for process in psutil.process_iter() if _session_of(process.pid) == session and not _is_zombie(process.pid)]


def processes_in(folder: Path) -> list[psutil.Process]:
    """Living processes whose working directory is exactly this folder."""
    return [process for process in psutil.process_iter() if _folder_of(process.pid) == folder]


def _folder_of(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_until(condition: Callable[[], bool], patience_seconds: float) -> bool:
    deadline = time.monotonic() + patience_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
