"""What somebody does to the topics of a sink: the stream goes on exactly, or stops and says why; it never begins anew (P1.5)."""

from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from include.tidemarks.commit import LogUnreadable
from include.tidemarks.sink_state import RowsWithoutTidemark, TidemarkLost
from jobs.sink import SinkWentBack
from tests.integration.jobs.test_changing_topics import add_partitions
from tests.outputs import OutputStream
from tests.running import wait_for
from tests.streams import exit_class_of

QUICKLY_COMPACTED = {
    "segment_ms": "100",
    "min_cleanable_dirty_ratio": "0.001",
    "max_compaction_lag_ms": "100",
    "delete_retention_ms": "0",
}


@pytest.fixture
def stream(stack: Stack, spark: SparkSession, tmp_path: Path) -> OutputStream:
    """It has delivered something."""
    stream = OutputStream(stack, tmp_path)
    stream.send(60)
    stream.run(spark)
    return stream


def topics(stream: OutputStream) -> set[str]:
    return set(stream.admin().list_topics(timeout=10).topics)


def delete(stream: OutputStream, *names: str) -> None:
    admin = stream.admin()
    for answer in admin.delete_topics(list(names)).values():
        answer.result(15)
    wait_for("the topics to be gone", lambda: not topics(stream) & set(names), 30)


def make_anew(stream: OutputStream, name: str, partitions: int) -> None:
    admin = stream.admin()
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(15)


def test_an_output_topic_that_is_gone_stays_gone(stream: OutputStream, spark: SparkSession) -> None:
    """The file lets the sink make its topic, but not a second time."""
    delete(stream, stream.output)
    stream.send(30)
    with pytest.raises(SinkWentBack, match=f"{stream.output} of kafka_main is gone") as stopped:
        stream.run(spark)
    assert exit_class_of(stopped.value) is ExitClass.SINK_WENT_BACK
    assert stream.output not in topics(stream)


def test_nothing_is_written_to_an_output_topic_that_was_made_anew(stream: OutputStream, spark: SparkSession) -> None:
    delete(stream, stream.output)
    make_anew(stream, stream.output, 4)
    stream.send(30)
    for _ in range(2):
        with pytest.raises(SinkWentBack, match="is another topic than the one that was written: its id is"):
            stream.run(spark)
    assert stream.outputs() == []


@pytest.mark.parametrize("is_made_anew", [False, True], ids=["deleted", "deleted and made anew"])
def test_a_running_stream_stops_when_its_output_topic_is(is_made_anew: bool, stream: OutputStream, spark: SparkSession) -> None:
    with stream.running(spark) as running:
        stream.send(30)
        wait_for("the outputs", lambda: stream.problems_of_outputs() == [])
        delete(stream, stream.output)
        if is_made_anew:
            make_anew(stream, stream.output, 4)
        stream.send(30)
        stopped = running.wait_until_it_fails()
    assert isinstance(stopped, SinkWentBack), stopped
    assert stream.outputs() == [] if is_made_anew else stream.output not in topics(stream)


def test_a_sink_whose_tidemarks_are_gone_is_never_new(stream: OutputStream, spark: SparkSession) -> None:
    """Its outputs would all come a second time. Without them too: the control database knows it."""
    delete(stream, f"{stream.output}.tidemarks")
    before = len(stream.outputs())
    stream.send(30)
    with pytest.raises(RowsWithoutTidemark, match=f"{stream.output} of kafka_main has rows but no tidemark"):
        stream.run(spark)
    assert len(stream.outputs()) == before
    delete(stream, stream.output)
    with pytest.raises(TidemarkLost, match="knows batches of"):
        stream.run(spark)
    assert not {stream.output, f"{stream.output}.tidemarks"} & topics(stream)


def test_a_running_stream_stops_when_its_tidemarks_are_gone(stream: OutputStream, spark: SparkSession) -> None:
    with stream.running(spark) as running:
        stream.send(30)
        wait_for("the outputs", lambda: stream.problems_of_outputs() == [])
        delete(stream, f"{stream.output}.tidemarks")
        before = len(stream.outputs())
        stream.send(30)
        stopped = running.wait_until_it_fails()
    assert exit_class_of(stopped) in (ExitClass.CONFIGURATION, ExitClass.SINK_WENT_BACK), stopped
    assert len(stream.outputs()) == before


def test_a_record_of_a_stranger_in_the_log_is_named(stream: OutputStream, spark: SparkSession) -> None:
    producer = stream.producer()
    producer.produce(f"{stream.output}.tidemarks", b"{}", b"of a stranger", partition=0)
    assert producer.flush(30) == 0
    stream.send(30)
    with pytest.raises(LogUnreadable, match=rf"of partition 0 of {stream.output}\.tidemarks is no commit of this sink"):
        stream.run(spark)
    assert len(stream.outputs()) == 60


def test_partitions_added_to_the_tidemarks_stop_the_stream(stream: OutputStream, spark: SparkSession) -> None:
    """Source partition 1 would look for its mark elsewhere, and find none."""
    name = f"{stream.output}.tidemarks"
    admin = stream.admin()
    admin.create_partitions([NewPartitions(name, 6)])[name].result(15)
    stream.send(30)
    with pytest.raises(SinkWentBack, match="has 5 partitions of marks, but was made with 3"):
        stream.run(spark)
    assert len(stream.outputs()) == 60


def test_more_source_partitions_than_partitions_of_marks_share_them(stream: OutputStream, spark: SparkSession) -> None:
    add_partitions(stream, 8)
    for _ in range(2):
        stream.send(80)
        stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 220, "delivered": 220}


def test_tidemarks_that_were_compacted_are_still_true(stream: OutputStream, spark: SparkSession) -> None:
    """Of a partition's marks the newest stays; the commits of the log all stay, each has a key of its own."""
    name = f"{stream.output}.tidemarks"
    stream.configure(name, **QUICKLY_COMPACTED)
    for _ in range(3):
        stream.send(30)
        stream.run(spark)
    before = len(stream.told())
    wait_for("the cleaner", lambda: len(marks_of(stream)) <= 2 * stream.partitions, 60)
    stream.send(30)
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 180, "delivered": 180}
    assert len(stream.told()) > before


def marks_of(stream: OutputStream) -> list[int]:
    return [one.partition for one in stream.outputs(f"{stream.output}.tidemarks") if one.partition > 0]
