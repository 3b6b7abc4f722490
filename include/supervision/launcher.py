"""Starts drivers as processes of their own, finds them again, and ends them. The only place that knows what a driver runs on.

A driver is never the child of an Airflow task: it has a Unix session of its own and outlives the task. It carries its launch id
in its environment, so one whose start was not recorded is found and not started twice.
"""

import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from include.contract.errors import TidemarkError
from include.contract.identity import LAUNCH_VARIABLE, LOG_VARIABLE, generation_log, launch_log
from include.control.drivers import DriverProcess
from include.processes.by_environment import find_processes, kill_processes, session_leader
from include.processes.process_record import ProcessRecord, read_record
from include.processes.sessions import start_detached
from include.supervision.scratch import in_scratch, make_scratch

LOG_BYTES_KEPT = 20_000_000  # a driver's log above this is moved to .1


@dataclass(frozen=True)
class Command:
    """What to run and in which environment; secrets stand in the second alone."""

    arguments: list[str]
    environment: dict[str, str]


class DriverNotStarted(TidemarkError):
    """The machine could not even begin a process."""


class Launcher(Protocol):
    """What supervision needs of the place where drivers run: this machine, or a cluster."""

    def start(self, stream: str, launch: str) -> ProcessRecord: ...

    def find(self, launch: str) -> ProcessRecord | None:
        """A process that carries this launch, though nobody recorded it."""

    def is_alive(self, driver: DriverProcess) -> bool | None:
        """None if it cannot be told from here."""

    def kill(self, launch: str) -> None:
        """All of it, and only then returns."""

    def rotate_log(self, stream: str, generation: int) -> None: ...


class DetachedLauncher:
    """Drivers in client mode, on this machine."""

    def __init__(self, build: Callable[[str, str], Command], folder: Path, logs: Path, scratch: Path) -> None:
        self._build = build
        self._folder = folder
        self._logs = logs
        self._scratch = (
            scratch / socket.gethostname()
        )  # two machines may share the disk, and neither knows who lives on the other

    def start(self, stream: str, launch: str) -> ProcessRecord:
        command = self._build(stream, launch)
        log, record = self._logs / launch_log(stream, launch), self._folder / f"{launch}.json"
        for folder in (log.parent, self._folder):
            folder.mkdir(parents=True, exist_ok=True)
        scratch = make_scratch(self._scratch / stream, launch, lambda other: self.find(other) is not None)
        environment = {**in_scratch(command.environment, scratch), LAUNCH_VARIABLE: launch, LOG_VARIABLE: str(log)}
        start_detached(command.arguments, environment, self._folder, log, record)
        process = read_record(record)
        if process is None:
            raise DriverNotStarted(
                f"The driver of {stream} could not be started: its process ended before it began.",
                state="Nothing runs, nothing was changed.",
                next_step=f"Read {log}.",
            )
        record.unlink()  # from here on the control database tells of it
        return process

    def find(self, launch: str) -> ProcessRecord | None:
        return session_leader(find_processes(**{LAUNCH_VARIABLE: launch}))

    def is_alive(self, driver: DriverProcess) -> bool | None:
        if driver.host != socket.gethostname():
            return None
        return driver.process.is_alive()

    def kill(self, launch: str) -> None:
        kill_processes(**{LAUNCH_VARIABLE: launch})

    def rotate_log(self, stream: str, generation: int) -> None:
        """Copied and emptied, for the driver's processes go on writing to the file that they have open (for appending)."""
        log = self._logs / generation_log(stream, generation)
        with suppress(FileNotFoundError):
            if log.stat().st_size > LOG_BYTES_KEPT:
                shutil.copyfile(log, log.with_suffix(".log.1"))
                os.truncate(log, 0)
