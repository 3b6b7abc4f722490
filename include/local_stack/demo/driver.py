"""The stream's driver as somebody sees it who means it harm: its processes, its checkpoint folder, its table's log."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from include.contract.errors import TidemarkError
from include.contract.identity import LAUNCH_VARIABLE
from include.local_stack.drivers import running_drivers
from include.local_stack.stack import Stack
from include.processes.by_environment import find_processes

LOOK_SECONDS = 0.002
BATCHES_BEFORE_A_KILL = 2
INTO_A_BATCH_SECONDS = 0.3


class DemoStuck(TidemarkError):
    """Something that the demo waits for does not happen."""


@dataclass(frozen=True)
class Kill:
    at: str
    pid: int
    batch: int
    proof: str


@dataclass(frozen=True)
class _Batch:
    generation: int
    number: int
    ends: dict[int, int]


class DemoDriver:
    def __init__(self, stack: Stack, stream: str, table: str) -> None:
        self._stack = stack
        self._checkpoints = stack.home.folder / "checkpoints" / stream
        self._log = stack.home.lake / table / "_delta_log"
        self._killed_at = 0.0
        self._killed_generation = 0

    def wait_until_at_work(self, seconds: float) -> None:
        _wait("the stream's first batches", lambda: self._newest().number >= BATCHES_BEFORE_A_KILL - 1, seconds)

    def kill_in_the_middle_of_a_batch(self) -> Kill:
        """Batch N is planned (offsets/N) and not finished (commits/N): then it lives for a moment more, and no longer."""
        generation = self._newest().generation
        while True:
            batch = self._wait_for_open_batch(generation)
            time.sleep(INTO_A_BATCH_SECONDS)
            with self._stopped() as pids:
                if self._is_open(generation, batch) and self._newest().number < batch:
                    return self._kill(pids, generation, batch, f"offsets/{batch} is there, commits/{batch} is not")

    def kill_after_a_commit(self) -> Kill:
        """The table has batch N, Spark's own log has not."""
        while True:
            self._wait_for_commit_after(self._version())
            with self._stopped() as pids:
                newest = self._newest()
                if newest.generation > self._killed_generation and self._is_open(newest.generation, newest.number):
                    proof = f"the table has batch {newest.number}, commits/{newest.number} is not there"
                    return self._kill(pids, newest.generation, newest.number, proof)

    def _wait_for_commit_after(self, version: int) -> None:
        _wait("the next commit", lambda: self._version() > version, 60)

    def wait_for_successor(self, seconds: float) -> float:
        """How long it took from the kill to the first batch that a new generation committed."""
        _wait("a new generation's first batch", lambda: self._newest().generation > self._killed_generation, seconds)
        return time.monotonic() - self._killed_at

    def wait_until_delivered(self, ends: dict[int, int], seconds: float) -> None:
        _wait("the last record", lambda: all(self._newest().ends.get(number, 0) >= end for number, end in ends.items()), seconds)

    def _kill(self, pids: list[int], generation: int, batch: int, proof: str) -> Kill:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._killed_at, self._killed_generation = time.monotonic(), generation
        return Kill(datetime.now(UTC).isoformat(timespec="milliseconds"), pids[0], batch, proof)

    def _stopped(self) -> "_Stopped":
        return _Stopped(
            [pid for launch in running_drivers(self._stack.home) for pid in find_processes(**{LAUNCH_VARIABLE: launch})]
        )

    def _wait_for_open_batch(self, generation: int) -> int:
        found: list[int] = []

        def is_open() -> bool:
            planned = [int(file.name) for file in self._folder(generation, "offsets").glob("*") if file.name.isdecimal()]
            found[:] = [max(planned)] if planned and self._is_open(generation, max(planned)) else []
            return bool(found)

        _wait("a batch that is under way", is_open, 60)
        return found[0]

    def _is_open(self, generation: int, batch: int) -> bool:
        offsets, commits = self._folder(generation, "offsets"), self._folder(generation, "commits")
        return (offsets / str(batch)).exists() and not (commits / str(batch)).exists()

    def _folder(self, generation: int, log: str) -> Path:
        return self._checkpoints / f"c{generation:06d}" / log

    def _version(self) -> int:
        return max((int(file.stem) for file in self._log.glob("*.json") if file.stem.isdecimal()), default=-1)

    def _newest(self) -> _Batch:
        """The newest batch in the table."""
        for version in range(self._version(), -1, -1):
            note = self._note(version)
            if note.get("kind") == "batch":
                mark = note["tidemark"]
                return _Batch(mark["generation"], mark["batch"], {int(number): end for number, end in mark["offsets"].items()})
        return _Batch(0, -1, {})

    def _note(self, version: int) -> dict[str, Any]:
        with suppress(FileNotFoundError, ValueError):
            for line in (self._log / f"{version:020d}.json").read_text().splitlines():
                info = json.loads(line).get("commitInfo")
                if info and info.get("userMetadata"):
                    return dict(json.loads(info["userMetadata"]))
        return {}


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


def _wait(what: str, condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DemoStuck(
                f"The demo waited {seconds:.0f} s for {what}.",
                state="Its stack is stopped; its data stays in var/demo.",
                next_step="Read var/demo/logs, above all the driver's log in logs/streams; then run `make demo` again.",
            )
        time.sleep(LOOK_SECONDS)
