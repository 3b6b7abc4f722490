"""A stream's driver as somebody sees it who means it harm: its processes, its checkpoint folder, the logs of its sinks."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

from include.contract.errors import TidemarkError
from include.contract.identity import DRIVER_LOGS, LAUNCH_VARIABLE, generation_log
from include.control.database import ControlDatabase
from include.local_stack.demo.eyes import Eye, newest_batch
from include.local_stack.drivers import running_drivers
from include.local_stack.stack import Stack
from include.processes.by_environment import find_processes

LOOK_SECONDS, STARE_SECONDS = 0.1, 0.002  # the moment between two commits is short
INTO_A_BATCH_SECONDS = 2  # of the ten that the first one takes: decoded, half written


class DemoStuck(TidemarkError):
    """Something that the demo waits for does not happen."""


@dataclass(frozen=True)
class Kill:
    at: str
    pid: int
    batch: int
    proof: str


class DemoDriver:
    def __init__(self, stack: Stack, stream: str, eyes: list[Eye]) -> None:
        """`eyes` on its sinks, in the order in which a batch reaches them."""
        self.stream = stream
        self._stack = stack
        self._checkpoints = stack.home.folder / "checkpoints" / stream
        self._first, self._last = eyes[0], eyes[-1]
        self._killed_at = 0.0
        self._killed_generation = 0

    def kill_in_the_middle_of_a_batch(self, seconds: float) -> Kill:
        """Batch N is planned (offsets/N) and not finished (commits/N): then it lives for a moment more, and no longer."""
        while True:
            generation, batch = self._wait_for_open_batch(seconds)
            time.sleep(INTO_A_BATCH_SECONDS)
            with self._stopped() as pids:
                if self._is_open(generation, batch) and newest_batch(self._first).number < batch:
                    return self._kill(pids, generation, batch, f"offsets/{batch} is there, commits/{batch} is not")

    def kill_between_two_sinks(self, send: Callable[[], None]) -> Kill:
        """The first sink has batch N; the last has not, and Spark's own log neither. Whatever is sent is a chance."""
        while True:
            stopped, version = self._stopped(), self._first.version()  # who it is takes longer to find than the moment lasts
            send()
            self._wait_for_commit_after(version)
            with stopped as pids:
                newest, last = newest_batch(self._first), newest_batch(self._last)
                is_between = (newest.generation, newest.number) > (last.generation, last.number)
                if newest.generation > self._killed_generation and is_between and self._is_open(newest.generation, newest.number):
                    proof = f"the lake has batch {newest.number}, the totals have not, commits/{newest.number} is not there"
                    return self._kill(pids, newest.generation, newest.number, proof)

    def kill_and_take_its_state(self, aside: Path) -> Kill:
        """All checkpoint folders that the stream ever had are moved there, while nobody writes into them."""
        with self._stopped() as pids:
            newest = newest_batch(self._last)
            aside.parent.mkdir(exist_ok=True)
            self._checkpoints.rename(aside)
            folders = ", ".join(sorted(folder.name for folder in aside.glob("c*")))
            proof = (
                f"its folders ({folders}) are moved to {aside.relative_to(self._stack.home.folder)}, nothing is left of its state"
            )
            return self._kill(pids, newest.generation, newest.number, proof)

    def wait_until_it_has_a_watermark(self, seconds: float) -> None:
        """From then on every batch knows what is late."""
        _wait(f"a watermark of {self.stream}", lambda: newest_batch(self._last).watermark_ms > 0, seconds)

    def said(self, words: str) -> str | None:
        """By the newest generation, in its log."""
        log = self._stack.home.folder.joinpath(*DRIVER_LOGS, generation_log(self.stream, newest_batch(self._last).generation))
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return next((line for line in lines if words in line), None)

    def _wait_for_commit_after(self, version: int) -> None:
        _wait("the next commit", lambda: self._first.version() > version, 60, STARE_SECONDS)

    def wait_for_successor(self, seconds: float) -> float:
        """How long it took from the kill to the first batch that a new generation brought to every sink."""
        _wait("a new generation's first batch", lambda: newest_batch(self._last).generation > self._killed_generation, seconds)
        return time.monotonic() - self._killed_at

    def watch_for_successor(self, seconds: float) -> "Future[float]":
        """The same, beside whatever else happens meanwhile: the time that passes there does not count."""
        found: Future[float] = Future()

        def look() -> None:
            try:
                found.set_result(self.wait_for_successor(seconds))
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                found.set_exception(error)

        Thread(target=look, daemon=True).start()
        return found

    def wait_until_delivered(self, ends: dict[int, int], seconds: float) -> None:
        def is_delivered() -> bool:
            there = newest_batch(self._last).ends
            return all(there.get(number, 0) >= end for number, end in ends.items())

        _wait(f"the last record of {self.stream}", is_delivered, seconds)

    def _kill(self, pids: list[int], generation: int, batch: int, proof: str) -> Kill:
        for pid in pids:
            with suppress(ProcessLookupError):  # a worker of Python's that went with the one before it
                os.kill(pid, signal.SIGKILL)
        self._killed_at, self._killed_generation = time.monotonic(), generation
        return Kill(datetime.now(UTC).isoformat(timespec="milliseconds"), pids[0], batch, proof)

    def _stopped(self) -> "_Stopped":
        launches = running_drivers(self._stack.home) & self._launches()
        return _Stopped([pid for launch in launches for pid in find_processes(**{LAUNCH_VARIABLE: launch})])

    def _launches(self) -> set[str]:
        with ControlDatabase(self._stack.postgres.connection("tidemark")).transaction() as cursor:
            cursor.execute("SELECT id::text FROM launch WHERE stream = %s", [self.stream])
            return {launch for (launch,) in cursor.fetchall()}

    def _wait_for_open_batch(self, seconds: float) -> tuple[int, int]:
        """Of the newest generation."""
        found: list[tuple[int, int]] = []

        def is_open() -> bool:
            generation = max((int(folder.name[1:]) for folder in self._checkpoints.glob("c*")), default=0)
            planned = [int(file.name) for file in self._folder(generation, "offsets").glob("*") if file.name.isdecimal()]
            found[:] = [(generation, max(planned))] if planned and self._is_open(generation, max(planned)) else []
            return bool(found)

        _wait(f"a batch of {self.stream} that is under way", is_open, seconds)
        return found[0]

    def _is_open(self, generation: int, batch: int) -> bool:
        offsets, commits = self._folder(generation, "offsets"), self._folder(generation, "commits")
        return (offsets / str(batch)).exists() and not (commits / str(batch)).exists()

    def _folder(self, generation: int, log: str) -> Path:
        return self._checkpoints / f"c{generation:06d}" / log


class _Stopped:
    """All of a driver's processes, stopped while somebody looks; they go on if nobody has killed them meanwhile."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids

    def __enter__(self) -> list[int]:
        self._signal(signal.SIGSTOP)
        return self._pids

    def __exit__(self, *_: object) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _wait(what: str, condition: Callable[[], bool], seconds: float, look_every: float = LOOK_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DemoStuck(
                f"The demo waited {seconds:.0f} s for {what}.",
                state="Its stack is stopped; its data stays in var/demo.",
                next_step="Read var/demo/logs, above all the driver's log in logs/streams; then run `make demo` again.",
            )
        time.sleep(look_every)
