"""Reads partitions as readers of committed records do: to an end that is settled, never past a transaction that is still open."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from include.contract.exit_class import ExitClass, StreamFailure
from include.topics.topic import ANSWER_SECONDS, LATEST, NOTICES, BrokerSilent, broker_failure, while_leaders_change

LOOK_SECONDS = 0.05  # between two looks whether a transaction has ended; most end within one
SILENT_SECONDS = 30  # without a record or the end of a partition


class HangingTransaction(StreamFailure):
    """A transaction stays open, and what was committed behind it cannot be seen."""

    exit_class = ExitClass.INFRASTRUCTURE


class Committed(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Ends(NamedTuple):
    """Up to `stable` no transaction is open; `high` is behind the last record."""

    stable: int
    high: int


def settled_ends(admin: AdminClient, topic: str, partitions: list[int], within_seconds: float) -> dict[int, int]:
    """Where each partition ends, once no transaction is open in it."""
    deadline = time.monotonic() + within_seconds
    while True:
        ends = read_ends(admin, topic, partitions)
        hanging = {number: end for number, end in ends.items() if end.stable < end.high}
        if not hanging:
            return {number: end.high for number, end in ends.items()}
        if time.monotonic() > deadline:
            number, end = next(iter(hanging.items()))
            raise HangingTransaction(
                f"A transaction is open in partition {number} of {topic} from offset {end.stable:,} on, for more than "
                f"{within_seconds:.0f} seconds: what is committed up to {end.high:,} cannot be seen.",
                state="Nothing was written.",
                next_step=f"Find its producer with kafka-transactions.sh find-hanging --topic {topic} --partition {number} and "
                "abort it there; the stream tries again by itself.",
                partition=number,
                offset=end.stable,
            )
        time.sleep(LOOK_SECONDS)


def read_ends(admin: AdminClient, topic: str, partitions: list[int]) -> dict[int, Ends]:
    """The stable ones are asked for first: an end that moves in between is taken for an open transaction, and asked for again."""
    wanted = {TopicPartition(topic, number): LATEST for number in partitions}
    levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)

    def ask(level: IsolationLevel) -> dict[int, int]:
        asked = admin.list_offsets(wanted, isolation_level=level, request_timeout=ANSWER_SECONDS)
        return {place.partition: answer.result(ANSWER_SECONDS).offset for place, answer in asked.items()}

    try:
        found = [while_leaders_change(partial(ask, level), ANSWER_SECONDS) for level in levels]
    except (KafkaException, TimeoutError) as error:
        raise _silent(topic, error) from error
    return {number: Ends(found[0][number], found[1][number]) for number in partitions}


def read_committed(address: str, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[Committed]:
    """The records of [start, end) of each partition, in the order of each partition. The ends are settled."""
    for message in _poll(address, topic, spans):
        number, offset = message.partition(), message.offset()
        if number is not None and offset is not None and offset < spans[number][1]:
            yield Committed(number, offset, _bytes(message.key()), _bytes(message.value()))


def _poll(address: str, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
    """Transactions leave offsets without a record, so only the end of a partition tells that nothing more comes."""
    open_partitions = {number for number, (start, end) in spans.items() if start < end}
    if not open_partitions:
        return
    with closing(Consumer(_consumer_settings(address))) as consumer:
        consumer.assign([TopicPartition(topic, number, spans[number][0]) for number in sorted(open_partitions)])
        while open_partitions:
            message = consumer.poll(SILENT_SECONDS)
            if message is None:
                raise _silent(topic, TimeoutError(f"no record of partitions {sorted(open_partitions)}"))
            error, number = message.error(), message.partition()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise _silent(topic, KafkaException(error))
            if error is None:
                yield message
            if number is not None and (error is not None or (message.offset() or 0) >= spans[number][1] - 1):
                open_partitions.discard(number)


def _consumer_settings(address: str) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": address,
        "group.id": "tidemark",  # asked for by the client; nothing is kept under it
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",  # what lay at the start may be compacted away
        "fetch.wait.max.ms": 10,  # the end is known: there is nothing to wait for
        "log_level": NOTICES,
    }


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _silent(topic: str, error: Exception) -> BrokerSilent:
    happened = f"The broker did not answer for topic {topic}: {error or type(error).__name__}."
    return broker_failure(error, happened, "The sinks hold their tidemarks.", topic)
