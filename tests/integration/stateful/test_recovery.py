"""Whatever dies, and whatever is left of the state: the tables are what plain arithmetic makes of the records (P6.1 to P6.3)."""

import itertools
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from include.start_plan import plan as start_plan
from include.start_plan.state_plan import StatePlan, Way, plan_state
from jobs import stateful_delivery
from jobs.batch import Delivery, StraddlesTidemark
from jobs.failpoints import Failpoint, FailpointReached
from tests.payments import TIMED, WINDOWS, Event, counted_once, send, totals, totals_there, windows_sink
from tests.streams import TrialStream, at, crash
from tests.warehouse import Warehouse

# Copies of one id come within a batch, in two partitions, and on both sides of a tidemark. `moved` comes too late once, and again
# in time: a state that is made again must not have the copy that was late.
FIRST = [
    *(Event(f"a{n}", f"u{n % 3}", n / 4, partition=n % 3) for n in range(60)),
    Event("a7", "u1", 7 / 4, partition=2),
    Event("a59", "u2", 59 / 4, partition=0),
]
SECOND = [
    *(Event(f"b{n}", f"u{n % 3}", 15 + n / 4, partition=n % 3) for n in range(60)),
    Event("a58", "u1", 58 / 4, partition=2),
    Event("b59", "u2", 15 + 59 / 4, partition=1),
    Event("moved", "u0", -60, partition=0, late=True),
    Event("gone", "u1", -50, partition=1, late=True),
]
THIRD = [
    *(Event(f"c{n}", f"u{n % 3}", 25 + n / 4, partition=n % 3) for n in range(60)),
    *(Event(f"b{n}", f"u{n % 3}", 15 + n / 4, partition=(n + 1) % 3) for n in range(50, 60)),
    Event("moved", "u0", 31, partition=2),
    Event("a3", "u0", 3 / 4, partition=2, late=True),
]
EVERYTHING = [*FIRST, *SECOND, *THIRD]
KILLS = {
    "in the middle of a batch": (Failpoint.AFTER_STATE, 1),
    "between the sink's commit and Spark's log": (Failpoint.AFTER_COMMIT, 1),
    "in a batch without records": (Failpoint.AFTER_STATE, 2),
    "after a batch without records was committed": (Failpoint.AFTER_COMMIT, 2),
}


def crash_at(point: Failpoint, turn: int) -> AbstractContextManager[None]:
    passed = itertools.count(1)
    return at(point, lambda: crash() if next(passed) == turn else None)


def same(trial: TrialStream) -> None:
    """The folders are as the crash left them."""


def older(trial: TrialStream) -> None:
    """Only the first generation's folder is left, as from an old backup; and batches are smaller than they were."""
    for folder in trial.checkpoints.iterdir():
        if folder.name != "c000001":
            shutil.rmtree(folder)


def none(trial: TrialStream) -> None:
    shutil.rmtree(trial.checkpoints)


WAYS: dict[str, Callable[[TrialStream], None]] = {"same checkpoint": same, "older backup": older, "no checkpoint": none}
CASES = list(itertools.product(KILLS, WAYS))
IN_THE_GATE = {
    ("in the middle of a batch", "same checkpoint"),
    ("between the sink's commit and Spark's log", "older backup"),
    ("after a batch without records was committed", "no checkpoint"),
}


def cases() -> list[object]:
    marks = {case: () if case in IN_THE_GATE else (pytest.mark.thorough,) for case in CASES}
    return [pytest.param(*case, marks=marks[case], id=", ".join(case)) for case in CASES]


def live_through(trial: TrialStream, spark: SparkSession, kill: str, way: str, **file: object) -> None:
    trial.write_file(**file)
    send(trial, FIRST)
    trial.run(spark)
    send(trial, SECOND)
    with crash_at(*KILLS[kill]), pytest.raises(FailpointReached):
        trial.run(spark)
    WAYS[way](trial)
    send(trial, THIRD)
    if way == "older backup":
        trial.write_file(**file, source={**SOURCE, "topic": trial.name, "max_records_per_batch": 40})
    trial.run(spark)


SOURCE = {"connection": "kafka_main", "start": "earliest"}


@pytest.mark.parametrize(("kill", "way"), cases())
def test_totals_of_windows_are_those_of_the_records(
    stack: Stack, tmp_path: Path, spark: SparkSession, kill: str, way: str
) -> None:
    trial = TrialStream(stack, tmp_path)
    live_through(trial, spark, kill, way, **TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    assert totals_there(trial, spark) == totals(EVERYTHING)


@pytest.mark.parametrize(
    ("kill", "way"),
    [
        ("between the sink's commit and Spark's log", "no checkpoint"),
        pytest.param("in the middle of a batch", "older backup", marks=pytest.mark.thorough),
        pytest.param("in a batch without records", "same checkpoint", marks=pytest.mark.thorough),
    ],
)
def test_two_sinks_of_which_one_was_ahead_have_each_id_once(
    stack: Stack, warehouse: Warehouse, tmp_path: Path, spark: SparkSession, kill: str, way: str
) -> None:
    trial = TrialStream(stack, tmp_path)
    counts = {"kind": "postgres_totals", "connection": "warehouse", "table": trial.name, "key": ["user_id"], "count": "events"}
    sinks = {"counts": counts, "lake": {"kind": "delta_append", "table": trial.name}}
    live_through(trial, spark, kill, way, **TIMED, sinks=sinks)
    expected = counted_once(EVERYTHING)
    assert Counter(row["event_id"] for row in trial.rows()) == Counter(dict.fromkeys(expected, 1))
    there = {row["user_id"]: row["events"] for row in warehouse.rows(trial.name)}
    assert there == Counter(event.user for event in expected.values())


@pytest.mark.parametrize("way", ["same checkpoint", "no checkpoint"])
def test_closed_windows_are_given_out_once_and_whole(stack: Stack, tmp_path: Path, spark: SparkSession, way: str) -> None:
    trial = TrialStream(stack, tmp_path)
    file = {**TIMED, "aggregate": {**WINDOWS, "emit": "final"}, "sinks": windows_sink(trial.name)}
    live_through(trial, spark, "in a batch without records", way, **file)
    closed = {place: value for place, value in totals(EVERYTHING).items() if place[1].minute + 5 <= (25 + 59 / 4) - 10}
    assert totals_there(trial, spark) == closed


# What is lost with a state that is not made again exactly. After `BEGUN` the watermark is at minute 5, after `LATE_ONCE` at 8.
EARLY = [Event("early", "u0", -30)]
BEGUN = [Event(f"a{n}", f"u{n % 3}", n / 4, partition=n % 3) for n in range(61)]
LATE_ONCE = [
    *(Event(f"b{n}", f"u{n % 3}", 15 + n / 4, partition=n % 3) for n in range(13)),
    Event("moved", "u0", 4, partition=1, late=True),  # above the horizon, in a window that is open
]
AFTER_THE_LOSS = [
    *(Event(f"c{n}", f"u{n % 3}", 18 + n / 4, partition=n % 3) for n in range(8)),
    *(Event(f"a{n}", f"u{n % 3}", n / 4, partition=(n + 1) % 3) for n in range(40, 61)),
    Event("moved", "u0", 12, partition=2),
    Event("early", "u0", -30, partition=1, late=True),
]
ALL_OF_IT = [*EARLY, *BEGUN, *LATE_ONCE, *AFTER_THE_LOSS]


def lose_everything(trial: TrialStream, spark: SparkSession, **file: object) -> None:
    trial.write_file(**file)
    for portion in (EARLY, BEGUN, LATE_ONCE):
        send(trial, portion)
        trial.run(spark)
    none(trial)
    send(trial, AFTER_THE_LOSS)


def without_warm_up(*given: Any) -> StatePlan:
    adopted = given[4]
    lowest = {number: min(offsets[number] for offsets in adopted.values()) for number in next(iter(adopted.values()))}
    return StatePlan(Way.FIRST, lowest)


def with_watermark_of_zero(*given: Any) -> StatePlan:
    plan = plan_state(*given)
    assert plan.seeded is not None
    clock = plan.seeded.clock.model_copy(update={"watermark_ms": 0})
    return replace(plan, seeded=replace(plan.seeded, clock=clock))


def with_late_ones(*given: Any) -> StatePlan:
    return replace(plan_state(*given), late=())


def with_a_batch_that_straddles(*given: Any) -> StatePlan:
    plan = plan_state(*given)
    assert plan.seeded is not None
    ends = {n: end + sum(event.partition == n for event in AFTER_THE_LOSS) for n, end in plan.seeded.ends.items()}
    return replace(plan, seeded=replace(plan.seeded, ends=ends), late=())


INSTEAD = {
    "a start at the tidemark without a warm-up lets duplicates pass": (without_warm_up, "twice"),
    "a watermark that begins at zero lets late duplicates pass": (with_watermark_of_zero, "twice"),
    "a state that has what was late loses later copies of it": (with_late_ones, "lost"),
    "a batch that straddles the tidemark lets duplicates pass": (with_a_batch_that_straddles, "twice"),
}


def wrong_ids(trial: TrialStream) -> dict[str, list[str]]:
    there, expected = Counter(row["event_id"] for row in trial.rows()), counted_once(ALL_OF_IT)
    wrong = {
        "twice": [name for name, times in there.items() if times > 1],
        "lost": [name for name in expected if not there[name]],
    }
    return {what: names for what, names in wrong.items() if names}


def test_a_state_that_is_made_again_has_what_it_had_and_nothing_else(stack: Stack, tmp_path: Path, spark: SparkSession) -> None:
    trial = TrialStream(stack, tmp_path)
    lose_everything(trial, spark, **TIMED, sinks={"lake": {"kind": "delta_append", "table": trial.name}})
    trial.run(spark)
    assert wrong_ids(trial) == {}


@pytest.mark.thorough(*list(INSTEAD)[1:])
@pytest.mark.parametrize("instead", INSTEAD)
def test_without_it_the_same_history_goes_wrong(
    stack: Stack, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, instead: str
) -> None:
    trial = TrialStream(stack, tmp_path)
    plan, found = INSTEAD[instead]
    lose_everything(trial, spark, **TIMED, sinks={"lake": {"kind": "delta_append", "table": trial.name}})
    monkeypatch.setattr(start_plan, "plan_state", plan)
    monkeypatch.setattr(Delivery, "_refuse_straddling", lambda *_: None)
    monkeypatch.setattr(stateful_delivery, "check_with_spark", lambda *_: None)
    trial.run(spark)
    assert found in wrong_ids(trial)


@pytest.mark.thorough
def test_windows_that_are_open_when_the_state_is_lost_get_their_whole_value(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    trial = TrialStream(stack, tmp_path)
    lose_everything(trial, spark, **TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    trial.run(spark)
    assert totals_there(trial, spark) == totals(ALL_OF_IT)


def test_a_batch_that_straddles_a_tidemark_is_refused(
    stack: Stack, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = TrialStream(stack, tmp_path)
    lose_everything(trial, spark, **TIMED, sinks={"lake": {"kind": "delta_append", "table": trial.name}})
    monkeypatch.setattr(start_plan, "plan_state", with_a_batch_that_straddles)
    with pytest.raises(StraddlesTidemark, match="holds it up to"):
        trial.run(spark)
