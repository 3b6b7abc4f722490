"""The topics of a Kafka sink: what must be true of them is checked before anything is touched, what may be made is made."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import rejects_topic, tidemarks_topic
from include.contract.stream_spec import KafkaOutput
from include.topics.committed import LOOK_SECONDS
from include.topics.topic import ANSWER_SECONDS, BrokerSilent, admin_of, broker_failure

MARKS_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",  # only closed segments are compacted
    "segment.bytes": "67108864",
    "min.cleanable.dirty.ratio": "0.1",
}
DURABLE = {"unclean.leader.election.enable": "false", "min.insync.replicas": "2"}
REJECTS_SETTINGS = {"cleanup.policy": "delete", "retention.ms": "-1"}  # a person decides what becomes of them


class TopicUnfit(StreamFailure):
    """A topic of the sink is missing, or is not as exactly-once needs it."""

    exit_class = ExitClass.CONFIGURATION


@dataclass(frozen=True)
class OutputSettings:
    """What the broker says of the output topic."""

    partitions: int
    largest_bytes: int


class OutputTopics:
    def __init__(self, address: str, sink: str, settings: KafkaOutput) -> None:
        self._sink = sink
        self._settings = settings
        self._admin = admin_of(address)

    def check(self, must_be_durable: bool) -> None:
        """Looks only."""
        there = self._partitions()
        output, marks = self._settings.topic, tidemarks_topic(self._settings.topic)
        if output not in there and self._settings.create is None:
            raise _unfit(f"There is no topic {output}.", f"Create it, or say sinks.{self._sink}.create: {{partitions: ...}}.")
        partition = self._settings.partition
        if output in there and isinstance(partition, int) and partition >= there[output]:
            raise _unfit(f"Topic {output} has no partition {partition}: it has {there[output]}.", "Name another partition.")
        if marks in there:
            self._check_marks(marks, there[marks])
        self._check_timeout()
        for topic in (output, marks) if must_be_durable else ():
            if topic in there:
                self.check_durable(topic)

    def make(self, source_partitions: int, must_be_durable: bool) -> None:
        """Those that are not there. Partitions of marks are counted once and for all."""
        there = self._partitions()
        replication = self._settings.create.replication if self._settings.create else -1  # as the broker is set up
        wanted = {
            tidemarks_topic(self._settings.topic): (1 + max(source_partitions, self._settings.slots), MARKS_SETTINGS),
            rejects_topic(self._settings.topic): (1, REJECTS_SETTINGS),
        }
        if self._settings.create:
            wanted[self._settings.topic] = (self._settings.create.partitions, {})
        missing = {topic: how for topic, how in wanted.items() if topic not in there}
        for topic, (partitions, settings) in missing.items():
            self._make(NewTopic(topic, partitions, replication, config={**settings, **(DURABLE if must_be_durable else {})}))
        self._wait_for_leaders({topic: partitions for topic, (partitions, _) in missing.items()})

    def _wait_for_leaders(self, made: dict[str, int]) -> None:
        """A topic is told of before every broker knows who leads its partitions."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            listed = self._ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS)).topics
            led = {topic: sum(one.leader >= 0 for one in listed[topic].partitions.values()) for topic in made if topic in listed}
            if led == made:
                return
            time.sleep(LOOK_SECONDS)
        raise BrokerSilent(
            f"No broker leads all partitions of {', '.join(made)}, or they are hidden from the user of the connection.",
            state="Nothing was written.",
            next_step="Bring back what is down, or give that user an ACL for Describe on these topics.",
        )

    def output(self) -> OutputSettings:
        topic = self._settings.topic
        partitions = self._partitions().get(topic)
        if partitions is None:
            raise _unfit(f"There is no topic {topic}.", "Bring it back.")
        return OutputSettings(partitions, int(self._configured(ConfigResource.Type.TOPIC, topic, "max.message.bytes")))

    def marks(self) -> int:
        """Partitions of the tidemarks topic beside the log."""
        return self._partitions()[tidemarks_topic(self._settings.topic)] - 1

    def _check_marks(self, topic: str, partitions: int) -> None:
        if (policy := self._configured(ConfigResource.Type.TOPIC, topic, "cleanup.policy")) != "compact":
            raise _unfit(f"Topic {topic} has cleanup.policy={policy}: tidemarks would be deleted by age.", "Set it to compact.")
        if partitions < 2:
            raise _unfit(f"Topic {topic} has {partitions} partition, so there is none for marks.", "Find out who made it.")

    def _check_timeout(self) -> None:
        """Any broker may be the coordinator; they are set up alike, or the client is told when it begins."""
        broker = next(iter(self._ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS)).brokers))
        largest = int(self._configured(ConfigResource.Type.BROKER, str(broker), "transaction.max.timeout.ms"))
        asked = self._settings.transaction_timeout.total_seconds()
        if asked * 1000 > largest:
            raise _unfit(
                f"sinks.{self._sink}.transaction_timeout is {asked:.0f} seconds, but the broker allows {largest / 1000:.0f}.",
                "Lower it, with slot_within, or raise the broker's transaction.max.timeout.ms.",
            )

    def check_durable(self, topic: str) -> None:
        unclean = self._configured(ConfigResource.Type.TOPIC, topic, "unclean.leader.election.enable")
        in_sync = self._configured(ConfigResource.Type.TOPIC, topic, "min.insync.replicas")
        if unclean != "false" or int(in_sync) < 2:
            raise _unfit(
                f"Topic {topic} has unclean.leader.election.enable={unclean} and min.insync.replicas={in_sync}: the loss of one "
                "broker could take back what was committed.",
                "Set them to false and 2 or more.",
            )

    def _partitions(self) -> dict[str, int]:
        listed = self._ask(lambda: self._admin.list_topics(timeout=ANSWER_SECONDS)).topics
        return {name: len(topic.partitions) for name, topic in listed.items() if topic.error is None}

    def _make(self, topic: NewTopic) -> None:
        try:
            self._admin.create_topics([topic], request_timeout=ANSWER_SECONDS)[topic.topic].result(ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another start was faster
                return
            if error.args[0].retriable() or error.args[0].code() == KafkaError._TIMED_OUT:
                raise self._silent(error, topic.topic) from error
            raise _unfit(
                f"Topic {topic.topic} cannot be made: {error.args[0].str()}.",
                "Make it by hand, or let the user of the connection: Create on Cluster or on this Topic.",
            ) from error
        except TimeoutError as error:
            raise self._silent(error, topic.topic) from error

    def _configured(self, kind: Any, name: str, setting: str) -> str:
        asked = ConfigResource(kind, name)
        answer = self._ask(
            lambda: self._admin.describe_configs([asked], request_timeout=ANSWER_SECONDS)[asked].result(ANSWER_SECONDS), name
        )
        return str(answer[setting].value)

    def _ask(self, question: Callable[[], Any], name: str = "") -> Any:
        try:
            return question()
        except (KafkaException, TimeoutError) as error:
            raise self._silent(error, name) from error

    def _silent(self, error: Exception, name: str) -> BrokerSilent:
        happened = f"The broker did not answer for the topics of sink {self._sink}: {error or type(error).__name__}."
        return broker_failure(error, happened, "The sinks hold their tidemarks.", name)


def _unfit(happened: str, next_step: str) -> TopicUnfit:
    return TopicUnfit(happened, state="Nothing was written.", next_step=next_step)
