"""One part of the stack: a program that is started, waited for until it really answers, and stopped."""

import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import ClassVar

import psutil

from include.contract.errors import TidemarkError
from include.jars.cache import cache_folder
from include.local_stack.home import PROJECT, StackHome
from include.processes.process_record import ProcessRecord, read_record
from include.processes.sessions import ask_to_stop, kill_all, session_members, start_detached, wait_for_end

LOG_LINES_SHOWN = 8


class NotHealthy(Exception):
    """The part runs, or should, but does not answer as it must; the message says what was asked and what came back."""


class PartDied(TidemarkError):
    """A part ended by itself."""


class PartSilent(TidemarkError):
    """A part runs, but did not become healthy in time."""


class Part(ABC):
    """Subclasses say what to run and how to ask it whether it works; they hold no state of their own."""

    name: ClassVar[str]
    port_names: ClassVar[tuple[str, ...]] = ()  # the first is the one to connect to
    gentle_signal: ClassVar[signal.Signals] = signal.SIGTERM
    stop_patience_seconds: ClassVar[float] = 20
    start_patience_seconds: ClassVar[float] = 120

    def __init__(self, home: StackHome, ports: dict[str, int]) -> None:
        self.home = home
        self.ports = ports

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def check_health(self) -> str:
        """Makes a real request. Returns what was seen; raises NotHealthy."""

    def check_started(self) -> str:
        """What a start waits for."""
        return self.check_health()

    def prepare(self) -> None:  # noqa: B027 - most parts need none
        """Work before a start; must be safe to repeat after being killed half-way."""

    def clear_after_stop(self) -> None:  # noqa: B027 - most parts leave nothing
        """Removes what the program leaves behind that only means 'running'."""

    def environment(self) -> dict[str, str]:
        return base_environment()

    @property
    def folder(self) -> Path:
        return self.home.data(self.name)

    @property
    def port(self) -> int | None:
        return self.ports.get(self.port_names[0]) if self.port_names else None

    @property
    def process(self) -> ProcessRecord | None:
        return read_record(self.home.record(self.name))

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def living_processes(self) -> list[psutil.Process]:
        """The part and all it started, also after the part itself has died."""
        return session_members(self.process) if self.process else []

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.prepare()
        start_detached(self.command(), self.environment(), self.folder, self.home.log(self.name), self.home.record(self.name))

    def wait_until_healthy(self) -> str:
        deadline = time.monotonic() + self.start_patience_seconds
        while True:
            try:
                return self.check_started()
            except NotHealthy as reason:
                last_reason = str(reason)
            if not self.is_alive:
                raise self._died()
            if time.monotonic() > deadline:
                raise self._silent(last_reason)
            time.sleep(0.2)

    def ask_to_stop(self) -> bool:
        """False if there is nobody to ask."""
        return self.process is not None and ask_to_stop(self.process, self.gentle_signal)

    def stop(self, *, asked: bool | None = None, waited_seconds: float = 0) -> str:
        """Returns how it ended. `asked`: what `ask_to_stop` said, if it was asked before, so many seconds ago. The record goes
        last: a stop that is killed half-way is finished by the next."""
        leader = self.process
        if leader is None:
            how = "was not running"
        elif self.ask_to_stop() if asked is None else asked:
            how = wait_for_end(leader, self.stop_patience_seconds, waited_seconds)
        else:
            how = "had died"
        kill_all(self.living_processes)
        self.clear_after_stop()
        self.home.record(self.name).unlink(missing_ok=True)
        return how

    def last_log_lines(self, count: int = LOG_LINES_SHOWN) -> list[str]:
        log = self.home.log(self.name)
        if not log.exists():
            return []
        with log.open(errors="replace") as lines:
            return [line.rstrip() for line in deque((line for line in lines if line.strip()), maxlen=count)]

    def _died(self) -> PartDied:
        return PartDied(
            f"{self.name} ended while it was starting. Its last lines:\n    " + "\n    ".join(self.last_log_lines()) + "\n",
            state="Parts that this command started are stopped again; all data is kept.",
            next_step=f"Read the lines above (more: `make logs PART={self.name}`), mend the cause, then run `make up` again.",
        )

    def _silent(self, reason: str) -> PartSilent:
        return PartSilent(
            f"{self.name} was not healthy after {self.start_patience_seconds:.0f} s: {reason}. Its last lines:\n    "
            + "\n    ".join(self.last_log_lines())
            + "\n",
            state="Parts that this command started are stopped again; all data is kept.",
            next_step=f"See `make logs PART={self.name}`, then run `make down` and `make up`.",
        )


def base_environment() -> dict[str, str]:
    """What every part and every job of the stack finds in its environment; nothing of the caller's own Python or Spark."""
    foreign = ("AIRFLOW", "TIDEMARK_", "SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    scripts = str(Path(sys.executable).parent)
    return {
        **kept,
        "PATH": os.pathsep.join([scripts, kept.get("PATH", "")]),  # spark-submit finds its Python by PATH
        "PYTHONPATH": str(PROJECT),
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",  # Java takes the encoding of file names from here
        "SPARK_LOCAL_IP": "127.0.0.1",  # or Spark looks for the machine's public address and warns about it
        "TIDEMARK_JARS": str(cache_folder()),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),  # passwords stay on this machine
    }
