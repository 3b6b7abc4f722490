"""Whatever happens to a slot's transaction, the driver goes on or ends with what was the matter; the next start is exact (P5)."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.contract.identity import transactional_id
from include.local_stack import kafka
from include.local_stack.stack import Stack
from include.topics.committed import HangingTransaction, read_ends
from include.topics.topic import admin_of
from jobs.failpoints import Failpoint
from jobs.kafka import commit_log, kafka_sink
from jobs.kafka.executor_failures import SlotFailed
from jobs.kafka.open_batch import SlotTooLong
from tests.integration.kafka.executors import StoppedWorkers, stopping_at
from tests.integration.kafka.second_broker import OF_THE_FIRST, second_broker
from tests.outputs import OutputStream
from tests.running import free_port, wait_for
from tests.streams import at, exit_class_of

PATIENCE = 180  # seconds: a step of a transaction is asked for five times, thirty seconds each


def in_mid_slot(stream: OutputStream, spark: SparkSession, point: Failpoint, harm: Callable[[], object]) -> BaseException | None:
    """What ended the driver to whose slot the harm was done; None if it delivered everything."""
    with stopping_at(spark, point) as workers, stream.running(spark) as running:
        running.was_awaited = True
        _harm(workers, harm)
        wait_for("its end or all outputs", lambda: running.failure is not None or stream.problems_of_outputs() == [], PATIENCE)
    return running.failure


def _harm(workers: StoppedWorkers, harm: Callable[[], object]) -> None:
    workers.wait()
    harm()
    workers.go_on()


def begin_as(stream: OutputStream, slot: int | None, **settings: object) -> Producer:
    """A client that knows no rules."""
    producer = stream.producer(**{"transactional.id": transactional_id(stream.name, "out", slot), **settings})
    producer.init_transactions(30)
    return producer


def open_transaction(stream: OutputStream, partition: int) -> Producer:
    stranger = stream.producer(**{"transactional.id": f"stranger {stream.name}"})
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(f"{stream.output}.tidemarks", b"{}", b"stranger", partition=partition)
    assert stranger.flush(30) == 0
    return stranger


def test_a_broker_that_is_killed_in_mid_transaction_loses_nothing(
    small_stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """One of its own: it has to look through all topics before it answers again."""
    small_stack.up()
    stream = OutputStream(small_stack, tmp_path, more={"slots": 1})
    stream.send(60)
    stream.run(spark)
    stream.send(90)

    def restart() -> None:
        process = small_stack.kafka.process
        assert process is not None
        psutil.Process(process.pid).kill()
        wait_for("the end of the broker", lambda: not process.is_alive())
        small_stack.up()

    ended = in_mid_slot(stream, spark, Failpoint.AFTER_MARKS, restart)
    assert ended is None or exit_class_of(ended) is ExitClass.INFRASTRUCTURE, ended
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 150, "delivered": 150}


@pytest.mark.thorough
def test_a_coordinator_that_moves_in_mid_transaction_loses_nothing(
    small_stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its broker is killed while slots are open, the other one takes them on; and it comes back.

    On a port that nobody knows: Kafka makes the topic of coordinators for whoever asks first, and a client of an earlier
    test that asks before the second broker is up leaves it none to lead.
    """
    on_both = kafka.SERVER_PROPERTIES.replace(
        "transaction.state.log.replication.factor=1", "transaction.state.log.replication.factor=2"
    )
    monkeypatch.setattr(kafka, "SERVER_PROPERTIES", on_both + OF_THE_FIRST)
    small_stack.up({"kafka": free_port()})
    with second_broker(small_stack.kafka, tmp_path) as second:
        names = [f"moved_{number}" for number in range(20)]
        wait_for("it to coordinate some", lambda: any(second.leads(transactional_id(name, "out", 0)) for name in names))
        name = next(name for name in names if second.leads(transactional_id(name, "out", 0)))
        stream = OutputStream(small_stack, tmp_path, name=name, more={"slots": 1})
        stream.send(60)
        stream.run(spark)
        stream.send(90)

        def move() -> None:
            second.kill()
            wait_for("the other broker to coordinate", lambda: not second.leads(transactional_id(name, "out", 0)))
            second.start()

        ended = in_mid_slot(stream, spark, Failpoint.AFTER_MARKS, move)
        assert ended is None or exit_class_of(ended) is ExitClass.INFRASTRUCTURE, ended
        stream.run(spark)
        assert stream.problems_of_outputs() == []
        assert stream.booked() == {"read": 150, "delivered": 150}


def test_somebody_who_begins_with_a_slots_id_is_no_newer_driver(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Newest begin wins in Kafka; but only the log of commits makes a driver `fenced`."""
    stream = OutputStream(stack, tmp_path, more={"slots": 1})
    stream.send(60)
    ended = in_mid_slot(stream, spark, Failpoint.AFTER_OUTPUTS, lambda: begin_as(stream, 0))
    assert ended is not None
    assert exit_class_of(ended) is ExitClass.INFRASTRUCTURE
    assert transactional_id(stream.name, "out", 0) in str(ended)
    assert stream.outputs() == []
    stream.run(spark)
    assert stream.problems_of_outputs() == []


def test_a_transaction_that_has_expired_is_written_anew(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may not ask for so little: a driver that sleeps for minutes is imitated in seconds."""
    monkeypatch.setattr(kafka_sink.KafkaTopicSink, "_timeout_ms", 1_000)
    stream = OutputStream(stack, tmp_path, more={"slots": 1})
    stream.send(60)

    def wait_until_it_is_aborted() -> None:
        wait_for("the broker to end the transaction", lambda: is_settled(stream), 60)

    ended = in_mid_slot(stream, spark, Failpoint.AFTER_MARKS, wait_until_it_is_aborted)
    assert ended is not None
    assert exit_class_of(ended) is ExitClass.INFRASTRUCTURE
    assert stream.outputs() == []
    monkeypatch.undo()
    stream.run(spark)
    assert stream.problems_of_outputs() == []


def test_a_slot_that_takes_longer_than_it_may_is_given_up(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Before the broker would end it; the next start takes half as many records (P3.9)."""
    stream = OutputStream(stack, tmp_path, more={"slots": 1, "slot_within": "1 second"})
    stream.send(60)
    ended = in_mid_slot(stream, spark, Failpoint.AFTER_OUTPUTS, lambda: time.sleep(1.1))
    assert isinstance(ended, SlotTooLong), ended
    assert exit_class_of(ended) is ExitClass.STUCK
    assert stream.outputs() == []
    stream.more["slot_within"] = "1 minute"
    stream.write_file()
    stream.run(spark)
    assert stream.problems_of_outputs() == []


def is_settled(stream: OutputStream) -> bool:
    ends = read_ends(admin_of(stream.stack.kafka.connection.address), stream.output, [0, 1, 2, 3])
    return any(end.high for end in ends.values()) and all(end.stable == end.high for end in ends.values())


def test_a_strangers_open_transaction_among_the_marks_is_named(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never read through: what is committed behind it would not be seen, and delivered once more."""
    stream = OutputStream(stack, tmp_path)
    stream.send(30)
    stream.run(spark)
    with monkeypatch.context() as patch:
        patch.setattr(kafka_sink.KafkaTopicSink, "_timeout_ms", 1_000)
        patch.setattr(commit_log, "HANGING_SECONDS", 1)
        for partition in (0, 1):
            stranger = open_transaction(stream, partition)
            began = time.monotonic()
            with pytest.raises(HangingTransaction, match=rf"open in partition {partition} of {stream.output}.tidemarks") as hangs:
                stream.run(spark)
            assert time.monotonic() - began < 20
            assert exit_class_of(hangs.value) is ExitClass.INFRASTRUCTURE
            assert hangs.value.evidence["partition"] == partition
            stranger.abort_transaction(30)
    stream.send(30)
    stream.run(spark)
    assert stream.problems_of_outputs() == []


def test_what_a_dead_driver_left_open_is_ended_by_the_next_with_another_number_of_slots(
    stack: Stack, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One slot, then three, then two: every id that ever wrote is begun anew at each start."""
    stream = OutputStream(stack, tmp_path, partitions=4)
    for slots in (1, 3, 2):
        stream.more["slots"] = slots
        stream.write_file()
        stream.send(60)
        stream.run(spark)
    assert "Sink out has 2 slots, and had up to 3: what any of them left open is ended first" in capsys.readouterr().out
    left_open = []
    for slot in range(3):
        dead = begin_as(stream, slot)
        dead.begin_transaction()
        dead.produce(stream.output, b"of a dead driver", partition=slot)
        dead.produce(f"{stream.output}.tidemarks", b"of a dead driver", b"dead", partition=1 + slot)
        assert dead.flush(30) == 0
        left_open.append(dead)
    stream.send(60)
    began = time.monotonic()
    stream.run(spark)
    assert time.monotonic() - began < 60
    assert stream.problems_of_outputs() == []
    for dead in left_open:
        with pytest.raises(Exception, match=r"fenced|epoch"):
            dead.commit_transaction(30)
    assert stream.problems_of_outputs() == []


def test_somebody_who_begins_with_the_id_of_the_log_is_no_newer_driver(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path)
    stream.send(30)
    with at(Failpoint.BEFORE_TELLING, lambda: begin_as(stream, None)), pytest.raises(SlotFailed) as ended:
        stream.run(spark)
    assert exit_class_of(ended.value) is ExitClass.INFRASTRUCTURE
    assert stream.booked() == {}
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked() == {"read": 30, "delivered": 30}
