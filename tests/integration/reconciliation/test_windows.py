"""Windows follow each other without a gap, end where commits end, and say what was judged and what was not (P7)."""

import os
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from include.control.database import ControlDatabase
from include.control.windows import Verdict
from include.local_stack.stack import Stack
from include.reconciliation.choose import RangeUnknown
from include.reconciliation.reconcile import Asked
from jobs.failpoints import Failpoint, FailpointReached
from tests.integration.reconciliation.trial import Trial, delete_row
from tests.streams import at, crash, order
from tests.warehouse import WarehouseStream

WINDOWS = int(os.environ.get("TIDEMARK_WINDOWS", "3"))  # 50 of them take ten minutes


@pytest.fixture
def trial(stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path) -> Trial:
    return Trial(stack, spark, tmp_path, own_control)


def test_each_window_begins_where_the_last_one_ended(trial: Trial) -> None:
    assert trial.reconcile() == [], "there is no table yet"
    trial.deliver(90, filtered=6, bad=3)
    first = trial.judged()
    assert (first.verdict, first.told) == (Verdict.PASSED, "99 records in 99 offsets: Kafka and the sink agree.")
    assert first.ranges == {0: (0, 33), 1: (0, 33), 2: (0, 33)}
    assert trial.reconcile() == [], "nothing has happened since"
    trial.deliver(30, bad=1)
    second = trial.judged()
    assert (second.verdict, second.starts) == (Verdict.PASSED, first.ends)
    complete = trial.complete_through()
    assert complete is not None
    assert (complete.offsets, complete.to_plain()["tier"]) == (second.ends, "recount")
    assert complete.event_time is not None


def test_a_run_that_is_asked_again_chooses_the_same(trial: Trial) -> None:
    trial.deliver(30)
    with trial.stream.environment():
        steps = trial.steps()
        (first,) = steps.choose()
        trial.deliver(30)
        (again,) = steps.choose()
    assert again == first


def test_a_failed_window_is_settled_by_hand_when_it_is_mended(trial: Trial) -> None:
    trial.deliver(90)
    delete_row(trial)
    failed = trial.judged()
    trial.stream.run(trial.spark, "--accept", f"lake:{failed.snapshot}")
    trial.deliver(30)
    later = trial.judged()
    assert [failed.verdict, later.verdict] == [Verdict.FAILED, Verdict.PASSED]
    assert trial.complete_through() is None, "a hole lies below it"
    asked = Asked("lake", {1: (5, 8)})
    assert trial.judged(asked).verdict is Verdict.FAILED
    put_back(trial)
    stranger = trial.judged()
    assert (stranger.ranges, stranger.verdict) == ({}, Verdict.FAILED)
    assert f"somebody's WRITE (version {stranger.snapshot}) added 1 rows" in (stranger.told or "")
    mended = trial.judged(asked)
    assert (mended.verdict, mended.by_hand, mended.ranges) == (Verdict.PASSED, True, failed.ranges)
    complete = trial.complete_through()
    assert complete is not None
    assert (complete.offsets, trial.incidents()) == (later.ends, [])


def put_back(trial: Trial) -> None:
    """As a hand would: the old version's row, appended."""
    old = trial.spark.read.format("delta").option("versionAsOf", 3).load(str(trial.stream.table))
    old.where("_partition = 1 AND _offset = 7").write.format("delta").mode("append").save(str(trial.stream.table))


def test_offsets_that_no_commit_holds_are_refused(trial: Trial) -> None:
    trial.deliver(90)
    with pytest.raises(RangeUnknown, match="has no commits that hold all of 1: 5 to 80"):
        trial.judged(Asked("lake", {1: (5, 80)}))


def test_a_table_that_went_back_reopens_the_windows_above(trial: Trial) -> None:
    trial.deliver(90)
    first = trial.judged()
    trial.deliver(30)
    second = trial.judged()
    DeltaTable.forPath(trial.spark, str(trial.stream.table)).restoreToVersion(first.up_to_version)
    trial.stream.run(trial.spark)
    again = trial.judged()
    assert (again.verdict, again.starts, again.ends) == (Verdict.PASSED, first.ends, second.ends), again.told
    with trial.control.transaction() as cursor:
        cursor.execute("SELECT verdict FROM reconciliation_window WHERE id = %s", [second.id])
        assert cursor.fetchone() == ("reopened",)


def test_what_kafka_has_deleted_is_not_judged_and_never_passed(trial: Trial) -> None:
    trial.deliver(90)
    admin, place = trial.stream.admin(), TopicPartition(trial.stream.name, 0, 10)
    admin.delete_records([place])[place].result(15)
    window = trial.judged()
    assert window.verdict is Verdict.NOT_JUDGED
    assert window.told == "The ledger is whole, but Kafka cannot tell: partition 0: Kafka begins at 10, the window at 0."
    assert trial.complete_through() is None
    trial.deliver(30)
    assert trial.judged().verdict is Verdict.PASSED
    complete: Any = trial.complete_through()
    assert [one["window"] for one in complete.not_judged] == [window.id]


@pytest.mark.thorough
def test_a_compacted_topic_is_judged_by_what_is_left(
    stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path
) -> None:
    trial = Trial(stack, spark, tmp_path, own_control)
    trial.stream.remake_topic_as({"cleanup.policy": "compact"})
    trial.stream.key = b"one key"
    trial.deliver(30)
    assert trial.judged().verdict is Verdict.PASSED
    trial.deliver(30)
    delete_row(trial)
    assert "1 lost in partition 1: offset 7" not in (trial.judged().told or ""), "it lies in the window before"


def test_a_key_that_is_there_twice_is_told(trial: Trial) -> None:
    producer = trial.stream.producer()
    for _ in range(2):
        producer.produce(trial.stream.name, order("the same", 5), partition=0)
    producer.flush(15)
    trial.stream.run(trial.spark)
    window = trial.judged()
    assert window.verdict is Verdict.FAILED
    assert window.told == "not so that no event_id is there twice (repeated_keys is 1)."


def test_the_spec_that_made_the_rows_is_the_one_that_is_counted_by(trial: Trial) -> None:
    """The file changed between two batches of one window."""
    trial.deliver(60, filtered=3)
    trial.stream.write_file(where="amount > 100", select={"day": "date(ts)", "amount_cents": "cast(amount * 200 as bigint)"})
    trial.stream.send(30)  # all filtered by now
    for place in list(trial.stream.sent)[-30:]:
        trial.stream.sent[place]["fate"] = "filtered"
    trial.stream.run(trial.spark)
    assert trial.stream.problems() == []
    assert trial.judged().verdict is Verdict.PASSED


@pytest.mark.thorough("postgres_totals")
@pytest.mark.parametrize("kind", ["delta_append", "postgres_totals"])
def test_many_windows_beside_a_live_stream_raise_no_false_alarm(
    kind: str, stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path
) -> None:
    """With crashes between the commits of quarantine, sink and Spark's log, compaction, and a driver that commits meanwhile."""
    in_database = WarehouseStream(stack, tmp_path, kind=kind, own_control=own_control) if kind != "delta_append" else None
    trial = Trial(stack, spark, tmp_path, own_control, in_database)
    stream, points = trial.stream, [Failpoint.AFTER_COMMIT, Failpoint.AFTER_QUARANTINE, Failpoint.BEFORE_COMMIT]
    stream.write_file(source__max_records_per_batch=400)
    verdicts = []
    for number in range(WINDOWS):
        stream.send(1_000, bad=7, filtered=20)
        if number % 3 == 0:
            with pytest.raises(FailpointReached), at(points[number // 3 % 3], crash):
                stream.run(spark)
        stream.run(spark)
        if number % 4 == 1 and in_database is None:
            DeltaTable.forPath(spark, str(stream.table)).optimize().executeCompaction()
        with stream.running(spark):
            stream.send(300)
            verdicts += [(window.verdict, window.told) for window in trial.reconcile()]
    assert [told for verdict, told in verdicts if verdict is not Verdict.PASSED] == []
    assert len(verdicts) == WINDOWS
    assert trial.incidents() == []
