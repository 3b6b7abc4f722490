"""One Kafka broker in KRaft mode (its own controller), from the jars of the lock."""

import base64
import subprocess
import uuid

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from include.contract.connections import Connection
from include.contract.environment import LocalStack
from include.contract.errors import TidemarkError
from include.jars.cache import class_path
from include.local_stack.home import StackHome
from include.local_stack.java import find_java
from include.local_stack.part import NotHealthy, Part, base_environment
from include.local_stack.ports import LOOPBACK
from include.local_stack.progress import step
from include.processes.die_with_parent import bound_to_this_process

HEALTH_TOPIC = "tidemark.health"
HEALTH_SECONDS = 5
SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
# Relative to the broker's working directory: a comma or an accent in the full path would be misread.
log.dirs=logs
# One node: the internal topics cannot have the three replicas they ask for by default.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# Default 50 partitions each: on one node they only cost files and start-up time.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
# A misspelt topic name must be an error, not a new topic.
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
"""
LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c{1})%n
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
"""


class KafkaNotFormatted(TidemarkError):
    """The broker's folder could not be made."""


class Kafka(Part):
    name = "kafka"
    port_names = ("kafka", "kafka_controller")
    start_patience_seconds = 60

    def __init__(self, home: StackHome, ports: dict[str, int], settings: LocalStack) -> None:
        super().__init__(home, ports)
        self.heap = settings.kafka_heap

    @property
    def connection(self) -> Connection:
        return Connection(LOOPBACK, self.port)

    def prepare(self) -> None:
        self._write_settings()
        if not (self.folder / "logs" / "meta.properties").exists():
            self._format()

    def command(self) -> list[str]:
        return [*_java(), f"-Xmx{self.heap}", "kafka.Kafka", "server.properties"]

    def check_health(self) -> str:
        """A record sent is a record read: by its own partition and offset, so checks never see each other's."""
        try:
            value = uuid.uuid4().bytes
            sent = self._send(value)
            self._read_back(sent, value)
        except KafkaException as error:
            raise NotHealthy(f"a record on port {self.port}: {error.args[0].str()}") from error
        except TimeoutError as error:
            raise NotHealthy(f"a topic on port {self.port}: not made within {HEALTH_SECONDS} s") from error
        return f"record {sent.offset} of {HEALTH_TOPIC} sent and read back"

    def clear_after_stop(self) -> None:
        (self.folder / "logs" / ".lock").unlink(missing_ok=True)

    def _send(self, value: bytes) -> TopicPartition:
        self._make_health_topic()
        delivered: list[Message] = []
        producer = Producer({**self._client(), "message.timeout.ms": HEALTH_SECONDS * 1000})
        producer.produce(HEALTH_TOPIC, value, on_delivery=lambda error, message: delivered.append(message))
        producer.flush(HEALTH_SECONDS)
        if not delivered:
            raise NotHealthy(f"a record on port {self.port}: not acknowledged within {HEALTH_SECONDS} s")
        if failure := delivered[0].error():
            raise KafkaException(failure)
        return TopicPartition(HEALTH_TOPIC, delivered[0].partition() or 0, delivered[0].offset() or 0)

    def _read_back(self, sent: TopicPartition, value: bytes) -> None:
        consumer = Consumer({**self._client(), "group.id": "tidemark.health", "enable.auto.commit": False})
        try:
            consumer.assign([sent])
            read = consumer.poll(HEALTH_SECONDS)
        finally:
            consumer.close()
        if read is None or read.value() != value:
            raise NotHealthy(f"record {sent.offset} of {HEALTH_TOPIC} was acknowledged but not read back")

    def _make_health_topic(self) -> None:
        admin = AdminClient(self._client())
        if HEALTH_TOPIC in admin.list_topics(timeout=HEALTH_SECONDS).topics:
            return
        kept_for_an_hour = {"retention.ms": "3600000"}
        topic = NewTopic(HEALTH_TOPIC, num_partitions=1, replication_factor=1, config=kept_for_an_hour)
        admin.create_topics([topic])[HEALTH_TOPIC].result(HEALTH_SECONDS)

    def _client(self) -> dict[str, str | int | float | bool]:
        quiet = {"log_level": 0}  # librdkafka writes connection errors to stderr; ours say it in one sentence
        return {"bootstrap.servers": self.connection.address, "socket.timeout.ms": HEALTH_SECONDS * 1000, **quiet}

    def _write_settings(self) -> None:
        values = {"host": LOOPBACK, "port": self.port, "controller": self.ports["kafka_controller"]}
        (self.folder / "server.properties").write_text(SERVER_PROPERTIES.format(**values))
        (self.folder / "log4j2.properties").write_text(LOGGING)

    def _format(self) -> None:
        """Kafka writes meta.properties last, so a killed format is simply done again."""
        cluster_id = base64.urlsafe_b64encode(b"T" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        command = [*_java(), "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties"]
        with step("making the broker's folder"):
            done = subprocess.run(
                bound_to_this_process(command),
                capture_output=True,
                text=True,
                check=False,
                cwd=self.folder,
                env=base_environment(),
            )
        if done.returncode:
            raise KafkaNotFormatted(
                f"Formatting {self.folder / 'logs'} ended with code {done.returncode}: {(done.stdout + done.stderr).strip()}",
                state="There is no broker yet.",
                next_step="Mend the cause, then run `make up` again.",
            )


def _java() -> list[str]:
    return [str(find_java()), "-Dlog4j2.configurationFile=log4j2.properties", "-cp", class_path("kafka")]
