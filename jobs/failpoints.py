"""Named places where a test may end, stop or break a driver. Off unless `TIDEMARK_FAILPOINT` asks for one.

`TIDEMARK_FAILPOINT=sink.before_commit=kill` acts when the place is reached; `...=kill@3` at the third time. Actions: `kill`
(SIGKILL to the JVM and to Python), `stop` (SIGSTOP to Python, until somebody sends SIGCONT), `sleep` (ten minutes), `raise`.
"""

import os
import re
import signal
import time
from collections import Counter
from enum import StrEnum

import psutil

from include.contract.exit_class import ExitClass, StreamFailure

VARIABLE = "TIDEMARK_FAILPOINT"
ACTIONS = ("kill", "stop", "sleep", "raise")
SLEEP_SECONDS = 600
STOP_SECONDS = 0.5  # the signal may reach another thread first; until all have stopped, this one must not go on


class Failpoint(StrEnum):
    """In the order in which a driver comes by."""

    AFTER_GENERATION = "take_over.after_generation"
    AFTER_FENCE = "take_over.after_fence"
    AFTER_READ = "take_over.after_read"
    AFTER_ADOPTION = "take_over.after_adoption"
    AFTER_CHECKPOINT = "take_over.after_checkpoint"
    AFTER_STATE = "state.after_consumed"  # a stateful batch came out of Spark's state, nothing of it is written
    BEFORE_WRITE = "sink.before_write"
    IN_COPY = "sink.in_copy"  # PostgreSQL: on an executor, whose rows are sent but not committed to staging
    IN_WRITE = "sink.in_write"  # files are written or rows staged, nothing is committed
    BEFORE_QUARANTINE = "quarantine.before_commit"
    AFTER_QUARANTINE = "quarantine.after_commit"
    BEFORE_COMMIT = "sink.before_commit"
    IN_TRANSACTION = "sink.in_transaction"  # PostgreSQL: everything is done but the COMMIT; also of fence and adoption
    BEFORE_SLOT = "slot.before_records"  # Kafka, these four on executors: nothing is begun
    AFTER_OUTPUTS = "slot.after_outputs"
    AFTER_MARKS = "slot.after_marks"  # outputs and marks are sent, not committed
    AFTER_SLOT = "slot.after_commit"  # one slot is through, perhaps not the others
    BEFORE_TELLING = "sink.before_telling"  # Kafka: all slots are through, the log does not know yet
    AFTER_COMMIT = "sink.after_commit"  # before Spark's own log
    BEFORE_MAINTENANCE = "maintenance.before_commit"  # of a table: its new files are written


class FailpointReached(Exception):
    """Raised on demand, in tests only."""


_passed: Counter[Failpoint] = Counter()


class FailpointUnknown(StreamFailure):
    """The environment asks for a place or an action that there is not."""

    exit_class = ExitClass.CONFIGURATION


def check_failpoint() -> None:
    """Before anything runs: a misspelt failpoint would make a test prove nothing."""
    asked = os.environ.get(VARIABLE)
    if asked and not re.fullmatch(rf"({'|'.join(Failpoint)})=({'|'.join(ACTIONS)})(@[1-9][0-9]*)?", asked):
        raise FailpointUnknown(
            f"{VARIABLE} is {asked!r}.",
            state="Nothing was started.",
            next_step=f"Use <place>=<action>[@turn]; places: {', '.join(Failpoint)}; actions: {', '.join(ACTIONS)}.",
        )


def reach(point: Failpoint) -> None:
    asked = os.environ.get(VARIABLE, "")
    if not asked:
        return
    name, _, what = asked.partition("=")
    action, _, turn = what.partition("@")
    if name != point:
        return
    _passed[point] += 1
    if _passed[point] == int(turn or 1):
        _act(action, point)


def _act(action: str, point: Failpoint) -> None:
    print(f"failpoint {point}: {action}", flush=True)
    if action == "kill":
        for process in psutil.Process().children(recursive=True):
            process.kill()
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(STOP_SECONDS)
    elif action == "sleep":
        time.sleep(SLEEP_SECONDS)
    else:
        raise FailpointReached(point)
