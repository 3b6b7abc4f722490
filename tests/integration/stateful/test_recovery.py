"""Whatever dies, and whatever is left of the state: the tables are what plain arithmetic makes of the records (P6.1 to P6.3)."""

import itertools
import re
import shutil
from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable as DeltaFiles
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from include.start_plan import plan as start_plan
from include.start_plan.state_plan import StatePlan, Way, plan_state
from include.tidemarks.note import EventClock
from jobs import stateful_delivery
from jobs.batch import Delivery, StraddlesTidemark
from jobs.failpoints import Failpoint, FailpointReached
from tests.payments import NOON, TIMED, WINDOWS, Event, counted_once, send, totals, totals_there, windows_sink
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
UNEVEN = {"between two sinks, without records": (Failpoint.AFTER_COMMIT, 3)}  # of two sinks the first one's second commit


def crash_at(point: Failpoint, turn: int) -> AbstractContextManager[None]:
    passed = itertools.count(1)
    return at(point, lambda: crash() if next(passed) == turn else None)


def lose_checkpoints(trial: TrialStream) -> None:
    shutil.rmtree(trial.checkpoints)


SAME, BACKUP, NONE = "same checkpoint", "older backup", "no checkpoint"  # what there is to go on from
CASES = list(itertools.product(KILLS, (SAME, BACKUP, NONE)))
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
    with crash_at(*(KILLS | UNEVEN)[kill]), pytest.raises(FailpointReached):
        trial.run(spark)
    go_on(trial, spark, way, **file)


def go_on(trial: TrialStream, spark: SparkSession, way: str, **file: object) -> None:
    """With the rest of the records, from what there is."""
    if way != SAME:
        lose_checkpoints(trial)
    send(trial, THIRD)
    if way == BACKUP:  # of the first run's end, and batches are smaller than they were
        trial.write_file(**file, source={**SOURCE, "topic": trial.name, "max_records_per_batch": 40})
    trial.run(spark, *(["--state=restore"] if way == BACKUP else []))


SOURCE = {"connection": "kafka_main", "start": "earliest"}


@pytest.mark.parametrize(("kill", "way"), cases())
def test_totals_of_windows_are_those_of_the_records(
    stack: Stack, tmp_path: Path, spark: SparkSession, kill: str, way: str
) -> None:
    trial = TrialStream(stack, tmp_path)
    live_through(trial, spark, kill, way, **TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    assert totals_there(trial, spark) == totals(EVERYTHING)


@pytest.mark.thorough(SAME, BACKUP)
@pytest.mark.parametrize("way", [SAME, BACKUP, NONE])
def test_two_sinks_of_which_one_was_ahead_have_each_id_once(
    stack: Stack, warehouse: Warehouse, tmp_path: Path, spark: SparkSession, way: str
) -> None:
    trial = TrialStream(stack, tmp_path)
    counts = {"kind": "postgres_totals", "connection": "warehouse", "table": trial.name, "key": ["user_id"], "count": "events"}
    sinks = {"counts": counts, "lake": {"kind": "delta_append", "table": trial.name}}
    live_through(trial, spark, "between the sink's commit and Spark's log", way, **TIMED, sinks=sinks)
    expected = counted_once(EVERYTHING)
    assert Counter(row["event_id"] for row in trial.rows()) == Counter(dict.fromkeys(expected, 1))
    there = {row["user_id"]: row["events"] for row in warehouse.rows(trial.name)}
    assert there == Counter(event.user for event in expected.values())


@pytest.mark.thorough(SAME)
@pytest.mark.parametrize("way", [SAME, NONE])
def test_closed_windows_are_given_out_once_and_whole(stack: Stack, tmp_path: Path, spark: SparkSession, way: str) -> None:
    trial = TrialStream(stack, tmp_path)
    file = {**TIMED, "aggregate": {**WINDOWS, "emit": "final"}, "sinks": windows_sink(trial.name)}
    live_through(trial, spark, "in a batch without records", way, **file)
    closed = {place: value for place, value in totals(EVERYTHING).items() if place[1].minute + 5 <= (25 + 59 / 4) - 10}
    assert totals_there(trial, spark) == closed


@pytest.mark.parametrize(
    ("emit", "way"),
    [
        pytest.param("updates", NONE, marks=pytest.mark.thorough),
        pytest.param("updates", BACKUP, marks=pytest.mark.thorough),
        pytest.param("updates", SAME, marks=pytest.mark.thorough),
        ("final", BACKUP),
        pytest.param("final", NONE, marks=pytest.mark.thorough),
        pytest.param("final", SAME, marks=pytest.mark.thorough),
    ],
)
def test_two_sinks_of_windows_of_which_one_was_ahead_hold_the_same(
    stack: Stack, warehouse: Warehouse, tmp_path: Path, spark: SparkSession, emit: str, way: str
) -> None:
    """`final`: the batch that closes windows, which has no records, reaches one of them."""
    trial = TrialStream(stack, tmp_path)
    table = {"kind": "postgres_upsert", "connection": "warehouse", "table": trial.name, "key": ["user_id", "window_start"]}
    sinks = {**windows_sink(trial.name), "warehouse": table}
    kill = "between the sink's commit and Spark's log" if emit == "updates" else "between two sinks, without records"
    live_through(trial, spark, kill, way, **TIMED, aggregate={**WINDOWS, "emit": emit}, sinks=sinks)
    closed = NOON + timedelta(minutes=(25 + 59 / 4) - 10 - 5)
    expected = {place: value for place, value in totals(EVERYTHING).items() if emit == "updates" or place[1] <= closed}
    assert totals_there(trial, spark) == expected
    there = {(row["user_id"], row["window_start"]): (row["amount_cents"], row["payments"]) for row in warehouse.rows(trial.name)}
    assert there == expected


def test_after_a_restore_of_its_table_a_state_that_lies_above_it_is_not_continued(
    stack: Stack, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    send(trial, FIRST)
    trial.run(spark)
    there = DeltaFiles(trial.table).version()
    send(trial, SECOND)
    trial.run(spark)
    SparkTable.forPath(spark, str(trial.table)).restoreToVersion(there)
    send(trial, THIRD)
    trial.run(spark)
    assert re.search(r"c000002 is not continued: no sink has a record that its batch \d+ ended there", capsys.readouterr().out)
    assert totals_there(trial, spark) == totals(EVERYTHING)


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
    lose_checkpoints(trial)
    send(trial, AFTER_THE_LOSS)


def without_warm_up(*given: Any) -> StatePlan:
    adopted = given[4]
    lowest = {number: min(offsets[number] for offsets in adopted.values()) for number in next(iter(adopted.values()))}
    return StatePlan(Way.FIRST, lowest)


def with_watermark_of_zero(*given: Any) -> StatePlan:
    return _with_warm_up(plan_state(*given), clock=EventClock(watermark_ms=0, late_ms=0))


def with_late_ones(*given: Any) -> StatePlan:
    return with_past(plan_state(*given), late_ms=0)


def with_a_batch_that_straddles(*given: Any) -> StatePlan:
    plan = plan_state(*given)
    ends = plan.up_to_lowest.ends if plan.up_to_lowest else {}
    beyond = {n: end + sum(event.partition == n for event in AFTER_THE_LOSS) for n, end in ends.items()}
    return _with_warm_up(plan, ends=beyond)


def with_past(plan: StatePlan, **instead: int) -> StatePlan:
    past = plan.up_to_lowest.past if plan.up_to_lowest else ()
    return _with_warm_up(plan, past=tuple(replace(one, **instead) for one in past))  # type: ignore[arg-type]


def _with_warm_up(plan: StatePlan, **instead: Any) -> StatePlan:
    return replace(plan, up_to_lowest=replace(plan.up_to_lowest, **instead) if plan.up_to_lowest else None)


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
