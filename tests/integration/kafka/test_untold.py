"""A driver that dies between the commits of its slots and its log has told nothing of them: whoever fences it tells it (P5)."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.contract.places import OutputTopic
from include.control.database import ControlDatabase
from include.control.windows import Verdict
from include.local_stack.stack import Stack
from include.tidemarks import kafka_log
from include.tidemarks.sink_state import read_sink
from include.tidemarks.sink_watch import SinkWatch
from jobs.failpoints import Failpoint, FailpointReached
from tests.integration.reconciliation.trial import Trial
from tests.outputs import OutputStream
from tests.streams import at, crash, once

UNTOLD = 2  # the commits of a start's log: the fence, then what was not told, then the adoption


@pytest.fixture
def stream(stack: Stack, own_control: ControlDatabase, tmp_path: Path) -> OutputStream:
    return OutputStream(stack, tmp_path, own_control=own_control)


@pytest.fixture
def trial(stream: OutputStream, spark: SparkSession, tmp_path: Path) -> Trial:
    assert stream.own_control
    return Trial(stream.stack, spark, tmp_path, stream.own_control, stream)


def crashes(stream: OutputStream, spark: SparkSession, point: Failpoint, act: Callable[[], None] = crash) -> None:
    with at(point, act), pytest.raises(FailpointReached):
        stream.run(spark)


def test_a_commit_that_was_not_told_is_told_by_the_next_start(stream: OutputStream, trial: Trial, spark: SparkSession) -> None:
    """Also if that one dies in telling it. What is told is judged meanwhile, and passes."""
    stream.send(250)
    stream.run(spark)
    stream.send(200, bad=3, filtered=2)
    crashes(stream, spark, Failpoint.BEFORE_TELLING)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 250, "delivered": 250}
    crashes(stream, spark, Failpoint.IN_TRANSACTION, at_time(UNTOLD, crash))
    told = trial.judged()
    assert (told.verdict, told.offsets) == (Verdict.PASSED, 250), told.told
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 455, "delivered": 450, "quarantined": 3, "filtered": 2}
    assert [note["kind"] for note in stream.told()[-3:]] == ["fence", "batch", "adopt"]
    rest = trial.judged()
    assert (rest.verdict, rest.offsets) == (Verdict.PASSED, 205), rest.told


def test_the_slots_that_were_through_are_told_and_the_others_delivered(
    stream: OutputStream, trial: Trial, spark: SparkSession
) -> None:
    """Of partitions 0 and 2 nothing is left to send, so the driver itself moves their marks first."""
    stream.send(30)
    stream.run(spark)
    for partition in (0, 2):
        stream.send(0, filtered=20, partition=partition)
    stream.send(20, partition=1)
    crashes(stream, spark, Failpoint.AFTER_SLOT, once(crash))
    stream.send(30)
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 120, "delivered": 80, "filtered": 40}
    partial = next(note for note in stream.told() if note["kind"] == "batch" and len(note["ledger"]) == 2)
    assert [(line["partition"], line["filtered"]) for line in partial["ledger"]] == [(0, 20), (2, 20)]
    assert trial.judged().verdict is Verdict.PASSED


def test_a_look_without_spark_sees_every_commit(stream: OutputStream, spark: SparkSession) -> None:
    """Of a sink that is new, that runs, that was left without a word, and that is told of."""
    place = OutputTopic("kafka_main", stream.output)
    with stream.environment():
        watch = SinkWatch(place, stream.name, "out")
        assert watch.look() == read_sink(place, stream.name, "out")
        assert watch.look().tidemark is None
    delivered = 0
    for number in range(3):
        stream.send(30)
        if number == 1:
            crashes(stream, spark, Failpoint.BEFORE_TELLING)
        else:
            stream.run(spark)
            delivered = len(stream.sent)
        with stream.environment():
            seen = watch.look()
            assert seen == read_sink(place, stream.name, "out")
            assert seen.tidemark is not None
            assert sum(seen.tidemark.offsets.values()) == delivered
            assert seen.generation == number + 1


def at_time(number: int, act: Callable[[], None]) -> Callable[[], None]:
    """Of coming by."""
    times = iter(range(1, 1_000))
    return lambda: act() if next(times) == number else None


def test_of_a_long_log_the_newest_part_is_kept_and_the_rest_is_read_when_asked(
    stream: OutputStream, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that runs for weeks must not remember each of its commits."""
    monkeypatch.setattr(kafka_log, "PAGE", 2)
    for _ in range(3):
        stream.send(30)
        stream.run(spark)
    with stream.environment():
        log = kafka_log.KafkaLog(OutputTopic("kafka_main", stream.output), stream.stack.kafka.connection.address)
        newest = log.newest_version()
        assert newest == 8
        assert [log.commit(version).version for version in range(9)] == list(range(9))
        assert log.newest_version() == newest
        assert len(log._commits) == 2
        assert log.commit(0).note == log.commit(0).note
        assert log.oldest_version() == 0
