"""Who a part is: its pid together with what tells it from any later process of the same pid. Standard library only.

A record outlives crashes and reboots, so it is believed only as far as the kernel confirms it.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class ProcessRecord:
    pid: int
    start_ticks: int  # the kernel's start time since boot: unlike the wall clock it never shifts
    boot: str
    started_at: float  # wall clock, for people and heartbeats

    @property
    def is_current(self) -> bool:
        """False once the machine was booted again or the pid belongs to somebody else."""
        return self.boot == boot_id() and start_ticks(self.pid) in (self.start_ticks, None)

    def is_alive(self) -> bool:
        return self.is_current and start_ticks(self.pid) is not None and not is_zombie(self.pid)

    def age_seconds(self) -> float:
        return time.time() - self.started_at


def own_record() -> ProcessRecord:
    return ProcessRecord(os.getpid(), start_ticks(os.getpid()) or 0, boot_id(), time.time())


def write_own_record(file: Path) -> None:
    """By rename, so that a reader never sees half of it."""
    unfinished = file.with_suffix(".new")
    unfinished.write_text(json.dumps(asdict(own_record())))
    unfinished.replace(file)


def read_record(file: Path) -> ProcessRecord | None:
    """None also for a file that a power cut left empty: nothing that it named can still be running."""
    try:
        return ProcessRecord(**json.loads(file.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def boot_id() -> str:
    return BOOT_ID.read_text().strip()


def start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def is_zombie(pid: int) -> bool:
    """Dead, but not yet collected by its parent."""
    fields = _stat(pid)
    return not fields or fields[0] == "Z"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may itself hold spaces and brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
