"""Random histories of a stateful stream: duplicates, disorder, lateness, a crash, the loss of every checkpoint, all batch sizes.

Each is a seed. A few run with the others; `make stateful-histories` lives through a hundred.
"""

import os
import random
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from tests.integration.stateful.test_recovery import SOURCE, crash_at
from tests.payments import TIMED, WINDOWS, Event, Totals, send, totals, totals_there, windows_sink
from tests.streams import TrialStream

HISTORIES = int(os.environ.get("TIDEMARK_HISTORIES") or 2)
PARTITIONS = 3
WANDERER = "w"
CRASHES = (Failpoint.AFTER_STATE, Failpoint.BEFORE_WRITE, Failpoint.BEFORE_COMMIT, Failpoint.AFTER_COMMIT)


class Producer:
    """Makes portions of events whose fate is known. Time goes on by some minutes with each; disorder is within four of them.

    Some have a user of their own and copies at other times, within eight minutes: such a user has one payment, in any window.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._minute = 0.0
        self._firsts: list[Event] = []
        self.sent: list[Event] = []

    def portion(self, *, may_be_late: bool) -> list[Event]:
        events = [self._event() for _ in range(self._chance.randint(30, 90))]
        self._firsts += events
        events += [self._again(self._chance.choice(self._firsts)) for _ in range(self._chance.randint(5, 30))]
        if may_be_late:
            events += [event for _ in range(self._chance.randint(1, 6)) for event in self._late()]
        self._chance.shuffle(events)
        self._minute += self._chance.choice([0.5, 3, 8, 14])
        self.sent += events
        return events

    def _event(self) -> Event:
        name, minute = f"e{self._chance.getrandbits(40):x}", self._minute + self._chance.uniform(-4, 0)
        wanders, cents = self._chance.random() < 0.2, self._chance.randint(1, 999)
        user = f"{WANDERER}{name}" if wanders else f"u{self._chance.randrange(4)}"
        return Event(name, user, minute, cents, self._chance.randrange(PARTITIONS))

    def _again(self, event: Event) -> Event:
        """The same event in any partition: a duplicate, or late by now. Either way it is not delivered."""
        apart = self._chance.uniform(-4, 4) if wanders(event.user) else 0
        return replace(event, minute=event.minute + apart, partition=self._chance.randrange(PARTITIONS))

    def _late(self) -> list[Event]:
        """An hour late; sometimes an event of the same id comes in time as well, in the same portion."""
        event = self._event()
        late = replace(event, minute=event.minute - 60, partition=self._chance.randrange(PARTITIONS), late=True)
        return [late, event] if self._chance.random() < 0.5 else [late]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_ends_as_if_nothing_had_happened(stack: Stack, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret
    trial, producer = TrialStream(stack, tmp_path), Producer(chance)
    emit = chance.choice(["updates", "final"])
    file = {**TIMED, "aggregate": {**WINDOWS, "emit": emit}, "sinks": windows_sink(trial.name)}

    def write_file() -> None:
        trial.write_file(**file, source={**SOURCE, "topic": trial.name, "max_records_per_batch": chance.choice([40, 90, 1000])})

    write_file()
    send(trial, producer.portion(may_be_late=False))
    trial.run(spark)  # to its end: from here on an hour is late, whatever the batches
    is_lost_after_the_crash = chance.random() < 0.5
    send(trial, producer.portion(may_be_late=True))
    write_file()
    if not is_lost_after_the_crash:
        shutil.rmtree(trial.checkpoints)
    _run_into_a_crash(trial, spark, chance)
    if is_lost_after_the_crash:
        shutil.rmtree(trial.checkpoints)
    send(trial, producer.portion(may_be_late=True))
    write_file()
    trial.run(spark)
    check(totals_there(trial, spark), producer.sent, emit, f"seed {seed}, {emit}")


def check(there: Totals, sent: list[Event], emit: str, which: str) -> None:
    """Where only final values are given out, windows that are still open are not there."""
    closed = max(event.time for event in sent) - timedelta(minutes=10)
    expected = totals(event for event in sent if not wanders(event.user))
    if emit == "final":
        expected = {place: value for place, value in expected.items() if place[1] + timedelta(minutes=5) <= closed}
    assert {place: value for place, value in there.items() if not wanders(place[0])} == expected, which
    wanderers = {event.user for event in sent if wanders(event.user) and not event.late}
    payments = {user: sum(count for (who, _), (_, count) in there.items() if who == user) for user in wanderers}
    assert set(payments.values()) <= ({1} if emit == "updates" else {0, 1}), which


def wanders(user: str) -> bool:
    return user.startswith(WANDERER)


def _run_into_a_crash(trial: TrialStream, spark: SparkSession, chance: random.Random) -> None:
    """Unless there are fewer batches than that."""
    with crash_at(chance.choice(CRASHES), chance.randint(1, 4)):
        try:
            trial.run(spark)
        except FailpointReached:
            return
