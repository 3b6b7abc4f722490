"""Asks the broker about one topic, without Spark and without a consumer group."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec

from include.contract.exit_class import ExitClass, StreamFailure

Answer = TypeVar("Answer")
ANSWER_SECONDS = 10
MISSING_SECONDS, LOOK_SECONDS = 5, 0.5
LEADERLESS = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
}
LEADER_SECONDS = 0.05  # between two questions to a partition that nobody leads
NOTICES = 5  # syslog's level: below it the client prints of its own housekeeping, which Airflow's log shows as errors
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes
EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]


class TopicMissing(StreamFailure):
    """The stream's topic is not there."""

    exit_class = ExitClass.CONFIGURATION


class TopicWithoutId(StreamFailure):
    """Neither we nor anybody could tell a topic that was made anew."""

    exit_class = ExitClass.CONFIGURATION


class BrokerSilent(StreamFailure):
    """The broker gave no answer, or an error."""

    exit_class = ExitClass.INFRASTRUCTURE


class AclMissing(BrokerSilent):
    """The broker does not allow what is asked: waiting does not help."""

    exit_class = ExitClass.CONFIGURATION


TO_READ = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Describe, DescribeConfigs and Read on Topic {name}",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Describe and DescribeConfigs on Cluster",
}


def broker_failure(
    error: Exception, happened: str, state: str, name: str, needed: Mapping[int, str] = MappingProxyType(TO_READ)
) -> BrokerSilent:
    """`needed`: by code of the error, which ACLs are missing; `name`: of the topic or whatever they are about."""
    acl = needed.get(error.args[0].code()) if isinstance(error, KafkaException) else None
    if acl is None:
        return BrokerSilent(happened, state=state)
    return AclMissing(
        happened,
        state=state,
        next_step=f"Give the user of the connection an ACL for {acl.format(name=name)}; then start the stream again.",
    )


@dataclass(frozen=True)
class TopicState:
    """Per partition: the first offset that is still there; the one after the last; and how far no transaction is open, which
    is how far a stream reads."""

    topic_id: str
    earliest: dict[int, int]
    latest: dict[int, int]
    stable: dict[int, int]


def admin_of(address: str, answer_seconds: int = ANSWER_SECONDS) -> AdminClient:
    """One client of a broker for as long as a process lives, whoever asks; a client does not survive a fork."""
    return _admin(address, answer_seconds, os.getpid())


@lru_cache(maxsize=32)
def _admin(address: str, answer_seconds: int, _process: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "socket.timeout.ms": answer_seconds * 1000, "log_level": NOTICES})


class Topic:
    """Each question costs one round trip."""

    def __init__(self, address: str, name: str, answer_seconds: int = ANSWER_SECONDS) -> None:
        self.address = address
        self.name = name
        self._answer_seconds = answer_seconds
        self._admin = admin_of(address, answer_seconds)

    def topic_id(self) -> str:
        return self._ask(lambda: self._describe()[0])

    def lasting_id(self) -> str | None:
        """Of a topic that was there. A broker that has just started may not know it yet: only one that is missing for a while
        is gone."""
        deadline = time.monotonic() + MISSING_SECONDS
        while True:
            try:
                return self.topic_id()
            except TopicMissing:
                if time.monotonic() > deadline:
                    return None
                time.sleep(LOOK_SECONDS)

    def state(self) -> TopicState:
        return self._ask(self._state)

    def is_compacted(self) -> bool:
        """Then records disappear from its middle, and Kafka no longer has all that was delivered."""
        return self._ask(self._is_compacted)

    def _is_compacted(self) -> bool:
        asked = ConfigResource(ConfigResource.Type.TOPIC, self.name)
        answer = self._admin.describe_configs([asked], request_timeout=self._answer_seconds)[asked].result(self._answer_seconds)
        return "compact" in str(answer["cleanup.policy"].value)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """A question that was under way while this process slept (SIGSTOP, a suspended machine) has timed out when it wakes,
        though nobody is to blame: it is asked once more."""
        try:
            return while_leaders_change(question, self._answer_seconds)
        except (KafkaException, TimeoutError) as error:
            if not _timed_out(error):
                raise self._failure(error) from error
        try:
            return question()
        except (KafkaException, TimeoutError) as error:
            raise self._failure(error) from error

    def _state(self) -> TopicState:
        topic_id, partitions = self._describe()
        stable = self._offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
        return TopicState(topic_id, self._offsets(partitions, EARLIEST), self._offsets(partitions, LATEST), stable)

    def _describe(self) -> tuple[str, list[int]]:
        asked = self._admin.describe_topics(TopicCollection([self.name]), request_timeout=self._answer_seconds)
        described = asked[self.name].result(self._answer_seconds)
        if str(described.topic_id) == NO_ID:
            raise TopicWithoutId(
                f"The broker at {self.address} gives topic {self.name} no id, so a topic made anew could not be told from it.",
                state="Nothing was started.",
                next_step="Use brokers that know topic ids (Kafka 2.8 or newer, without a proxy that hides them).",
            )
        return str(described.topic_id), [partition.id for partition in described.partitions]

    def _offsets(
        self, partitions: list[int], which: Any, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[int, int]:
        wanted = {TopicPartition(self.name, number): which for number in partitions}
        asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=self._answer_seconds)
        return {place.partition: answer.result(self._answer_seconds).offset for place, answer in asked.items()}

    def _failure(self, error: Exception) -> StreamFailure:
        if "UNKNOWN_TOPIC" in str(error):
            return TopicMissing(
                f"There is no topic {self.name!r} on {self.address}.",
                state="The sinks hold their tidemarks.",
                next_step="Create the topic, or mend source.topic in the stream file.",
            )
        happened = f"The broker at {self.address} did not answer for topic {self.name}: {error or type(error).__name__}."
        return broker_failure(error, happened, "The sinks hold their tidemarks.", self.name)


def while_leaders_change(question: Callable[[], Answer], seconds: float) -> Answer:
    """A partition that was just made, or whose leader has just died, is led by another one in a moment."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return question()
        except KafkaException as error:
            if error.args[0].code() not in LEADERLESS or time.monotonic() > deadline:
                raise
            time.sleep(LEADER_SECONDS)


def _timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or "_TIMED_OUT" in str(error)
