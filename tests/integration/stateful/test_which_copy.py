"""Which copy of an event passes is found out again when a state is made again: copies may lie in different windows (P6.1)."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from include.start_plan import plan as start_plan
from include.start_plan.state_plan import StatePlan, plan_state
from tests.integration.stateful.test_recovery import lose_checkpoints, with_past
from tests.payments import NOON, TIMED, WINDOWS, Event, send, totals_there, windows_sink
from tests.streams import TrialStream

# In windows that a loss finds open: the watermark is at minute 4 then.
WANDERED = [
    *(Event(f"w{n}", f"w{n}", 13.5, partition=2) for n in range(20)),
    *(Event(f"v{n}", f"v{n}", 9.5 + n % 2, partition=n % 3) for n in range(20)),
    *(Event(f"v{n}", f"v{n}", 10.5 - n % 2, partition=(n + 1) % 3) for n in range(20)),  # in the same batch
]
CAME_BACK = [*(Event(f"w{n}", f"w{n}", 8.5, partition=n % 2) for n in range(20)), Event("clock", "u", 14)]
GOES_ON = [Event(f"more {user}{n}", f"{user}{n}", 7) for user in "wv" for n in range(20)]


def wander(trial: TrialStream, spark: SparkSession) -> None:
    trial.write_file(**TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    for portion in (WANDERED, CAME_BACK):
        send(trial, portion)
        trial.run(spark)
    lose_checkpoints(trial)
    send(trial, GOES_ON)
    trial.run(spark)


def counts_of(trial: TrialStream, spark: SparkSession, user: str) -> list[tuple[int, ...]]:
    """Of each of these users, in the windows that begin at minutes 5 and 10."""
    there, begins = totals_there(trial, spark), [NOON + timedelta(minutes=minute) for minute in (5, 10)]
    return [tuple(there.get((f"{user}{n}", begin), (0, 0))[1] for begin in begins) for n in range(20)]


def test_an_event_whose_copies_lie_in_two_windows_is_in_one_of_them_also_after_a_loss(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    trial = TrialStream(stack, tmp_path)
    wander(trial, spark)
    assert counts_of(trial, spark, "w") == [(1, 1)] * 20  # that of the earlier batch, at minute 13
    assert counts_of(trial, spark, "v") == [(2, 0)] * 20  # in one batch that of the earlier event, at minute 9


@pytest.mark.thorough
def test_without_the_order_of_batches_such_an_event_is_counted_twice(
    stack: Stack, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = TrialStream(stack, tmp_path)
    monkeypatch.setattr(start_plan, "plan_state", in_any_order)
    wander(trial, spark)
    assert counts_of(trial, spark, "w") == [(2, 1)] * 20


def in_any_order(*given: Any) -> StatePlan:
    """By event time alone, as if all had come in one batch."""
    return with_past(plan_state(*given), batch=0)
