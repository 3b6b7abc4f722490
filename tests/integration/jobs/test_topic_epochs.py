"""A topic that was made anew goes on as a new epoch once somebody has approved its id (P1.6). Its offsets begin again, so records
of both epochs stand at the same places, in the table and in the quarantine: each of them once."""

import re
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.local_stack.stack import Stack
from include.topics.topic import Topic
from jobs.failpoints import Failpoint, FailpointReached
from jobs.fenced_table import FencedTable
from jobs.take_over import StartRefused
from tests.checker import Place, problems
from tests.running import wait_for
from tests.streams import TrialStream, at, crash, exit_class_of

Sent = dict[Place, dict[str, str]]


def two_sinks(stream: TrialStream, **more: Any) -> None:
    lake = {"kind": "delta_append", "table": stream.name, "partition_by": ["day"]}
    stream.write_file(sinks={"also": {"kind": "delta_append", "table": f"{stream.name}_also"}, "lake": lake}, **more)


def also(stream: TrialStream) -> Path:
    return stream.table.with_name(f"{stream.name}_also")


def make_anew(stream: TrialStream) -> Sent:
    """What was sent to the topic that is gone."""
    gone, stream.sent = stream.sent, {}
    stream.remake_topic()
    return gone


def topic_id(stream: TrialStream) -> str:
    return Topic(stream.stack.kafka.connection.address, stream.name).topic_id()


def approve(stream: TrialStream) -> tuple[str, str]:
    return "--accept-topic", topic_id(stream)


def books(stream: TrialStream, *epochs: Sent) -> list[str]:
    """What is wrong with them in any epoch and any table."""
    tables = [table for table in (stream.table, also(stream)) if table.exists()]
    return [
        f"{table.name}, epoch {number}: {problem}"
        for table in tables
        for number, sent in enumerate(epochs, 1)
        for problem in problems(sent, table, stream.quarantine, epoch=number)
    ] + [f"{table.name} has rows of other epochs" for table in tables if not epochs_of(table) <= set(range(1, len(epochs) + 1))]


def epochs_of(table: Path) -> set[int]:
    return {epoch for epoch, _, _ in places(table)}


def places(table: Path) -> list[tuple[int, int, int]]:
    names = ["_topic_epoch", "_partition", "_offset"]
    return sorted(tuple(row[name] for name in names) for row in DeltaTable(table).to_pyarrow_table(columns=names).to_pylist())


def versions(stream: TrialStream) -> list[int]:
    return [DeltaTable(table).version() for table in (stream.table, stream.quarantine)]


# How long the new topic is, beside the 20 good records that each partition of the old one had.
SHORTER, AS_LONG, LONGER = 7, 20, 67


def test_each_record_of_both_topics_is_delivered_once(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Whether a partition is shorter than before, as long, or longer."""
    stream = TrialStream(stack, tmp_path)
    stream.send(60, bad=9, filtered=6)
    stream.run(spark)
    first = make_anew(stream)
    for partition, records in enumerate((SHORTER, AS_LONG, LONGER)):
        stream.send(records, bad=3, filtered=2, partition=partition)
    stream.run(spark, *approve(stream))
    assert books(stream, first, stream.sent) == []
    stream.send(30, bad=3)
    stream.run(spark)  # the approval was for one start, and is not needed again
    assert books(stream, first, stream.sent) == []
    assert len(places(stream.quarantine)) == len(set(places(stream.quarantine))) == 9 + 9 + 3
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        cursor.execute("SELECT epoch, sum(delivered) FROM ledger WHERE stream = %s GROUP BY 1 ORDER BY 1", [stream.name])
        assert cursor.fetchall() == [(1, 60), (2, SHORTER + AS_LONG + LONGER + 30)]


def test_without_an_approval_of_its_id_a_new_topic_is_refused_and_nothing_is_touched(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """Neither if all its partitions are shorter than before, nor if all are longer: then offsets alone would look right."""
    stream = TrialStream(stack, tmp_path, partitions=2)
    stream.send(100)
    stream.run(spark)
    old_id, before = topic_id(stream), versions(stream)
    make_anew(stream)
    said = f"Kafka has id {topic_id(stream)}. Sink lake holds partition 0 up to 50, 1 up to 50 of id {old_id}."
    for records in (20, 180):
        stream.send(records)
        for approved in ([], ["--accept-topic", old_id], ["--accept-topic", "yes"]):
            with pytest.raises(StartRefused, match=re.escape(said)) as refused:
                stream.run(spark, *approved)
            assert exit_class_of(refused.value) is ExitClass.TOPIC_CHANGED
            assert f"recover_stream with mode new_topic (with make run: TOPIC_ID={topic_id(stream)})" in refused.value.next_step
            assert versions(stream) == before


def test_an_approval_holds_for_one_start_also_if_that_one_did_not_get_far(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(30)
    stream.run(spark)
    first = make_anew(stream)
    stream.send(60)
    with at(Failpoint.AFTER_FENCE, crash), pytest.raises(FailpointReached):
        stream.run(spark, *approve(stream))
    with pytest.raises(StartRefused, match="The topic was made anew"):
        stream.run(spark)
    stream.run(spark, *approve(stream))
    assert books(stream, first, stream.sent) == []


def test_a_topic_made_anew_stops_a_stream_in_any_epoch_and_the_next_one_needs_its_own_approval(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(50)
    stream.run(spark)
    first = make_anew(stream)
    stream.send(20)
    second_id = topic_id(stream)
    stream.run(spark, "--accept-topic", second_id)
    with stream.running(spark) as running:
        stream.send(20)
        wait_for("the stream to go on in epoch 2", lambda: books(stream, first, stream.sent) == [], 90)
        second = make_anew(stream)
        stream.send(60)
        failure = running.wait_until_it_fails()
    assert exit_class_of(failure) is ExitClass.TOPIC_CHANGED
    with pytest.raises(StartRefused, match=re.escape(f"up to 40 of id {second_id}")):
        stream.run(spark, "--accept-topic", second_id)
    stream.run(spark, *approve(stream))
    assert books(stream, first, second, stream.sent) == []


# The places that leave different things behind: the others differ only in what is gone with the driver.
@pytest.mark.thorough("quarantine.after_commit", "sink.after_commit")
@pytest.mark.parametrize("point", [Failpoint.AFTER_ADOPTION, Failpoint.AFTER_QUARANTINE, Failpoint.AFTER_COMMIT], ids=str)
def test_after_a_crash_on_the_way_into_an_epoch_all_sinks_end_in_it_without_another_approval(
    point: Failpoint, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    two_sinks(stream)
    stream.send(90, bad=6)
    stream.run(spark)
    first = make_anew(stream)
    stream.send(60, bad=6)
    with at(point, crash), pytest.raises(FailpointReached):
        stream.run(spark, *approve(stream))
    stream.send(30)
    stream.run(spark)
    assert books(stream, first, stream.sent) == []


@pytest.mark.thorough("the quarantine", "both sinks")
@pytest.mark.parametrize("adoptions", [1, 2, 3], ids=["the quarantine", "one sink", "both sinks"])
def test_a_crash_after_some_adoptions_skips_nothing_of_a_new_topic_that_is_read_from_latest(
    adoptions: int, stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where `latest` was is known by what was adopted."""
    stream = TrialStream(stack, tmp_path)
    two_sinks(stream)
    stream.send(90)
    stream.run(spark)
    first = make_anew(stream)
    two_sinks(stream, source__start="latest")
    stream.send(60)
    stream.sent.clear()
    with monkeypatch.context() as patch:
        patch.setattr(FencedTable, "adopt", _crash_after(adoptions))
        with pytest.raises(FailpointReached):
            stream.run(spark, *approve(stream))
    stream.send(30)
    stream.run(spark)
    assert books(stream, first, stream.sent) == []


def _crash_after(adoptions: int) -> Any:
    adopt, done = FencedTable.adopt, []

    def adopt_and_crash(*arguments: Any, **more: Any) -> None:
        adopt(*arguments, **more)
        done.append(arguments)
        if len(done) == adoptions:
            crash()

    return adopt_and_crash


@pytest.mark.thorough
def test_sinks_that_were_uneven_when_their_topic_ended_are_level_in_the_next_epoch(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """What only one of them has of the old topic is told with its numbers, as part of what is approved."""
    stream = TrialStream(stack, tmp_path)
    two_sinks(stream, source__max_records_per_batch=150)
    stream.send(450)
    with at(Failpoint.AFTER_COMMIT, crash), pytest.raises(FailpointReached):
        stream.run(spark)
    before, old_id = places(also(stream)), topic_id(stream)
    make_anew(stream)
    stream.send(60)
    with pytest.raises(StartRefused, match=re.escape(f"It lacks 50 offsets of partition 0 of id {old_id}, 50 offsets")):
        stream.run(spark)
    stream.run(spark, *approve(stream))
    assert stream.problems(epoch=2) == []
    assert problems(stream.sent, also(stream), stream.quarantine, epoch=2) == []
    assert [place for place in places(also(stream)) if place[0] == 1] == before
    assert epochs_of(stream.table) == {2}


def test_sinks_that_are_uneven_in_a_later_epoch_are_levelled_under_the_old_spec(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    two_sinks(stream)
    stream.send(90)
    stream.run(spark)
    first = make_anew(stream)
    stream.send(60)
    with at(Failpoint.AFTER_COMMIT, crash), pytest.raises(FailpointReached):
        stream.run(spark, *approve(stream))
    two_sinks(stream, select={"day": "date(ts)", "amount_cents": "cast(amount * 200 as bigint)"})
    stream.run(spark)
    assert books(stream, first, stream.sent) == []
    assert {row["amount_cents"] for suffix in ("", "_also") for row in stream.rows(suffix)} == {500}


@pytest.mark.thorough
def test_a_table_that_is_restored_to_the_old_epoch_gets_the_new_one_again(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """No approval is asked for: the quarantine knows where the epoch began."""
    stream = TrialStream(stack, tmp_path)
    stream.send(60, bad=6)
    stream.run(spark)
    old_epoch = DeltaTable(stream.table).version()
    make_anew(stream)
    stream.send(60, bad=6)
    stream.run(spark, *approve(stream))
    before = places(stream.table), places(stream.quarantine)
    DeltaTable(stream.table).restore(old_epoch)
    assert epochs_of(stream.table) == {1}
    stream.write_file(source__start="latest")
    stream.run(spark)
    assert (places(stream.table), places(stream.quarantine)) == before


@pytest.mark.thorough
def test_bad_records_of_a_topic_that_ended_before_its_first_batch_hide_none_of_the_next(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing was delivered, so no approval is needed; but the quarantine has records at the same places."""
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(10, bad=4)
    with at(Failpoint.AFTER_QUARANTINE, crash), pytest.raises(FailpointReached):
        stream.run(spark)
    make_anew(stream)
    stream.send(10, bad=4)
    stream.run(spark)
    assert stream.problems(epoch=2) == []
    assert len(places(stream.quarantine)) == 8
