"""What changes around a stateful stream: its file, its sinks, what Kafka still has. Each id counts once, and what cannot be made
again is told before it is given up (P6.3)."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions
from pyspark.sql import SparkSession

from include.contract import environment
from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from jobs.take_over import StartRefused
from tests.integration.stateful.test_recovery import FIRST, SECOND, THIRD, crash_at, lose_checkpoints
from tests.payments import TIMED, WINDOWS, WITHIN, Event, counted_once, send, totals, totals_there, windows_sink
from tests.streams import TrialStream

LAKE = {"kind": "delta_append"}


def ids(trial: TrialStream, suffix: str = "") -> Counter[str]:
    return Counter(row["event_id"] for row in trial.rows(suffix))


def once(*portions: list[Event]) -> Counter[str]:
    return Counter(dict.fromkeys(counted_once([event for portion in portions for event in portion]), 1))


def test_a_sink_that_was_added_does_not_hide_what_the_state_was_made_of(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    """Its own log begins where it was added: what came before is in the log of the other."""
    trial = TrialStream(stack, tmp_path)
    old = {"lake": {**LAKE, "table": trial.name}}
    trial.write_file(**TIMED, sinks=old)
    send(trial, FIRST)
    trial.run(spark)
    trial.write_file(**TIMED, sinks={"added": {**LAKE, "table": f"{trial.name}_added", "from": "now"}, **old})
    send(trial, SECOND)
    trial.run(spark)
    lose_checkpoints(trial)
    send(trial, [*THIRD, *FIRST[40:60]])  # the latter are duplicates, or late by now
    trial.run(spark)
    assert ids(trial) == once(FIRST, SECOND, THIRD)
    assert ids(trial, "_added") == once(FIRST, SECOND, THIRD) - once(FIRST)


@pytest.mark.parametrize("is_lost", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["all lost", "alone"])
def test_a_sink_that_was_added_and_had_no_batch_yet_hides_nothing_either(
    stack: Stack, tmp_path: Path, spark: SparkSession, is_lost: bool
) -> None:
    """It stands where the other stands, by its adoption. Beside it all checkpoints are lost; alone it goes on from the folder."""
    trial = TrialStream(stack, tmp_path)
    old = {"lake": {**LAKE, "table": trial.name}}
    added = {"added": {**LAKE, "table": f"{trial.name}_added", "from": "now"}}
    trial.write_file(**TIMED, sinks=old)
    send(trial, FIRST)
    trial.run(spark)
    trial.write_file(**TIMED, sinks={**added, **old})
    with crash_at(Failpoint.AFTER_CHECKPOINT, 1), pytest.raises(FailpointReached):
        trial.run(spark)
    if is_lost:
        lose_checkpoints(trial)
    else:
        trial.write_file(**TIMED, sinks=added)
    send(trial, [*SECOND, *FIRST[40:60]])
    trial.run(spark)
    assert ids(trial, "_added") == once(FIRST, SECOND) - once(FIRST)
    assert ids(trial) == (once(FIRST, SECOND) if is_lost else once(FIRST))


def test_a_state_that_a_person_distrusts_is_not_gone_on_from_after_a_crash(
    stack: Stack, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever starts it again asks for nothing."""
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, sinks={"lake": {**LAKE, "table": trial.name}})
    send(trial, FIRST)
    trial.run(spark)
    send(trial, SECOND)
    with crash_at(Failpoint.AFTER_STATE, 1), pytest.raises(FailpointReached):
        trial.run(spark, "--state=warm_up")
    capsys.readouterr()
    trial.run(spark)
    said = capsys.readouterr().out
    assert "c000001 is not continued: it is marked: a person asked for the state to be made again from Kafka." in said
    assert "State: made again from Kafka, 62 offsets" in said
    assert ids(trial) == once(FIRST, SECOND)


def test_a_watermark_serves_no_other_event_time(stack: Stack, tmp_path: Path, spark: SparkSession) -> None:
    trial = TrialStream(stack, tmp_path)
    sinks = {"lake": {**LAKE, "table": trial.name, "schema_changes": "add_columns"}}
    trial.write_file(**TIMED, sinks=sinks)
    send(trial, FIRST)
    trial.run(spark)
    an_hour_later = {**TIMED, "select": {**TIMED["select"], "at": "ts + interval 1 hour"}}
    trial.write_file(**{**an_hour_later, "dedupe": {**WITHIN, "event_time": "at"}}, sinks=sinks)
    with pytest.raises(StartRefused, match="Event time is made otherwise") as refused:
        trial.run(spark)
    assert "2026-01-01T12:04:45.000Z" in refused.value.happened
    trial.write_file(**an_hour_later, sinks=sinks)
    send(trial, SECOND)
    trial.run(spark)
    assert ids(trial) == once(FIRST, SECOND)


@pytest.mark.thorough
def test_dedupe_that_was_out_of_the_file_for_a_while_comes_back_if_nothing_was_delivered_without_it(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    trial = TrialStream(stack, tmp_path)
    sinks = {"lake": {**LAKE, "table": trial.name}}
    trial.write_file(**TIMED, sinks=sinks)
    send(trial, FIRST)
    trial.run(spark)
    trial.write_file(**TIMED | {"dedupe": None}, sinks=sinks)
    with crash_at(Failpoint.AFTER_CHECKPOINT, 1), pytest.raises(FailpointReached):
        trial.run(spark)
    trial.write_file(**TIMED, sinks=sinks)
    send(trial, SECOND)
    trial.run(spark)
    assert ids(trial) == once(FIRST, SECOND)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "another window": ({"aggregate": {**WINDOWS, "window": "10 minutes"}}, "another stream file"),
    "longer within": ({"dedupe": {**WITHIN, "within": "20 minutes"}}, "another stream file"),
    "another key": ({"dedupe": {**WITHIN, "key": ["event_id", "user_id"]}}, "another stream file"),
}


@pytest.mark.thorough(*list(CHANGES)[1:])
@pytest.mark.parametrize("change", CHANGES)
def test_a_state_of_another_file_is_made_again_and_not_run_into(
    stack: Stack, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    trial = TrialStream(stack, tmp_path)
    file = {**TIMED, "aggregate": WINDOWS, "sinks": windows_sink(trial.name)}
    changed, told = CHANGES[change]
    trial.write_file(**file)
    send(trial, FIRST)
    trial.run(spark)
    trial.write_file(**(file | changed))
    send(trial, SECOND)
    capsys.readouterr()
    trial.run(spark)
    said = capsys.readouterr().out
    assert f"c000001 is not continued: its state was made by {told}" in said
    assert "State: made again from Kafka, 62 offsets" in said
    minutes = 10 if change == "another window" else 5
    touched = {place: value for place, value in totals([*FIRST, *SECOND], minutes).items() if place[1].minute >= 15}
    there = totals_there(trial, spark)
    assert {place: there[place] for place in touched} == touched


@pytest.mark.thorough
def test_other_shuffle_partitions_make_the_state_again(
    stack: Stack, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, sinks={"lake": {**LAKE, "table": trial.name}})
    send(trial, FIRST)
    trial.run(spark)
    send(trial, [*SECOND, *FIRST[50:]])
    written = (environment.ENVIRONMENTS / "local.yaml").read_text()
    (tmp_path / "local.yaml").write_text(written.replace("shuffle_partitions: 2", "shuffle_partitions: 3"))
    monkeypatch.setattr(environment, "ENVIRONMENTS", tmp_path)
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    try:
        trial.run(spark)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert "its state lies in 2 shuffle partitions, the environment says 3" in capsys.readouterr().out
    assert ids(trial) == once(FIRST, SECOND)


@pytest.mark.parametrize("emit", ["updates", pytest.param("final", marks=pytest.mark.thorough)])
def test_windows_whose_records_kafka_has_deleted_are_given_up_only_when_a_person_says_so(
    stack: Stack, tmp_path: Path, spark: SparkSession, emit: str
) -> None:
    """The watermark is at minute 4 3/4: windows from minute 0 on are open. Kafka has deleted all up to minute 7."""
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, aggregate={**WINDOWS, "emit": emit}, sinks=windows_sink(trial.name))
    first = [Event(f"a{n}", "u0", n / 4, partition=0) for n in range(60)]
    for portion in (first[:28], first[28:]):
        send(trial, portion)
        trial.run(spark)
    lose_checkpoints(trial)
    admin = trial.admin()
    admin.delete_records([TopicPartition(trial.name, 0, 28)])[TopicPartition(trial.name, 0)].result(15)
    more = [Event(f"b{n}", "u0", 3 + n, partition=0) for n in range(25)]
    send(trial, [*more, first[-1]])
    with pytest.raises(StartRefused) as refused:
        trial.run(spark)
    assert refused.value.exit_class is ExitClass.RETENTION_GAP
    follows = "keep their last value" if emit == "updates" else "are never given out"
    assert "duplicates of events up to 2026-01-01T12:06:45.000Z would pass" in refused.value.happened
    assert f"windows 2026-01-01 12:00-12:05 UTC, 2026-01-01 12:05-12:10 UTC {follows}" in refused.value.happened
    with pytest.raises(StartRefused):
        trial.run(spark, "--forget-through=2026-01-01T12:06:44.999Z")
    trial.run(spark, "--forget-through=2026-01-01T12:06:45.000Z")
    later = {place: value for place, value in totals([*first, *more]).items() if place[1].minute >= 10}
    kept = {place: value for place, value in totals(first).items() if place[1].minute < 10}
    closed = {place: value for place, value in later.items() if place[1].minute + 5 <= 17}
    assert totals_there(trial, spark) == (kept | later if emit == "updates" else closed)


def test_a_partition_that_is_added_between_two_starts_is_read_from_its_beginning(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    """Also when a start in between adopted it and delivered nothing."""
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, sinks={"lake": {"kind": "delta_append", "table": trial.name}})
    send(trial, FIRST)
    trial.run(spark)
    admin = trial.admin()
    admin.create_partitions([NewPartitions(trial.name, 4)])[trial.name].result(15)
    with crash_at(Failpoint.AFTER_CHECKPOINT, 1), pytest.raises(FailpointReached):
        trial.run(spark)
    more = [*SECOND, Event("a59", "u2", 59 / 4, partition=3), Event("new", "u0", 16, partition=3)]
    send(trial, more)
    trial.run(spark)
    assert ids(trial) == once(FIRST, more)
