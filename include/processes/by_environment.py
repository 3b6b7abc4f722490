"""Finds processes by a variable of their environment, which they pass on to all they start: no record can be lost."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from include.processes.process_record import ProcessRecord, boot_id, is_zombie, start_ticks
from include.processes.sessions import SECONDS_TO_DIE


def find_processes(**variables: str) -> list[int]:
    """Pids of the living processes of this user that carry all of them."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    return sorted(pid for pid in _pids() if wanted <= _environment(pid) and not is_zombie(pid))


def find_values(name: str, **variables: str) -> set[str]:
    """What a variable is, in all living processes that carry the others."""
    prefix = f"{name}=".encode()
    found = (entry for pid in find_processes(**variables) for entry in _environment(pid) if entry.startswith(prefix))
    return {entry.removeprefix(prefix).decode() for entry in found}


def kill_processes(**variables: str) -> None:
    """Again and again until none is left: one that is just being started would be missed by a single look."""
    deadline = time.monotonic() + SECONDS_TO_DIE
    while pids := find_processes(**variables):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pids[0]} is still there {SECONDS_TO_DIE} s after SIGKILL")
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def session_leader(pids: list[int]) -> ProcessRecord | None:
    for pid in pids:
        ticks = start_ticks(pid)
        if ticks is not None and _session_of(pid) == pid:
            return ProcessRecord(pid, ticks, boot_id(), 0)
    return None


def _pids() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]


def _environment(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:  # gone, or somebody else's
        return set()


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
