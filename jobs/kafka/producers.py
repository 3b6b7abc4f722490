"""Producers with a transactional id, and what their errors mean. On the driver and on executors; never forked, never kept."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from include.topics.topic import NOTICES, broker_failure

SECONDS = 30  # for one answer of the transaction's coordinator
WARM_UP_SECONDS = 0.055  # until the connection stands: on a cold one the first question of a transaction waits half a second
BY_KEY = -1  # the client chooses the partition
FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
TO_WRITE = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Write, Read and Describe on Topic {name}, and on its .tidemarks and .rejects",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IdempotentWrite on Cluster, or Write on Topic {name}",
}


class ProducerFenced(Exception):
    """Somebody else has begun with our transactional id since, or our transaction has expired: only the log of commits tells
    whether a newer driver did it (P5)."""


def begin(address: str, transactional_id: str, topic: str, timeout_ms: int, **settings: Any) -> Producer:
    """A producer of its own for each attempt: whatever was open under this id is aborted, and older producers are fenced."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "log_level": NOTICES,
            **settings,
        }
    )
    with meaning(transactional_id, topic):
        producer.list_topics(topic, timeout=SECONDS)
        producer.poll(WARM_UP_SECONDS)
        patiently(lambda: producer.init_transactions(SECONDS))
    return producer


def patiently(step: Callable[[], None], tries: int = 5) -> None:
    """Steps that the client says may be asked for again, which then go on where they were."""
    for _ in range(tries - 1):
        try:
            return step()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
    return step()


def produce(producer: Producer, topic: str, value: str, key: str, partition: int = BY_KEY) -> None:
    while True:
        try:
            return producer.produce(topic, value, key, partition)
        except BufferError:  # the broker is slower than we are
            producer.poll(0.05)


@contextmanager
def meaning(transactional_id: str, topic: str, of: Producer | None = None) -> Iterator[None]:
    """`of`: the producer whose transaction is under way."""
    try:
        yield
    except KafkaException as raised:
        error = what_broke(of, raised) if of else raised
        code = error.args[0].code()
        if code in FENCED:
            raise ProducerFenced(
                f"Somebody else began with the transactional id {transactional_id}, or the broker ended what took too long."
            ) from error
        about_id = {KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"Write and Describe on TransactionalId {transactional_id}"}
        happened = f"A transaction of {transactional_id} failed: {error.args[0].str()}."
        state = "It was committed as a whole or not at all; the marks say which."
        raise broker_failure(error, happened, state, topic, {**TO_WRITE, **about_id}) from error


def what_broke(producer: Producer, error: KafkaException) -> KafkaException:
    """Once a transaction is broken the client takes no more records and says only that its state is wrong. A second beginning
    within a transaction is always refused: in a broken one by what broke it."""
    if error.args[0].code() != KafkaError._STATE:
        return error
    try:
        producer.begin_transaction()
    except KafkaException as cause:
        return cause
    return error
