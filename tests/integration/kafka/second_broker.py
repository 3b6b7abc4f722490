"""A second broker beside a stack's own, which it can die without: so that a coordinator has somewhere to move to."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from include.local_stack import kafka
from include.local_stack.part import base_environment
from include.processes.die_with_parent import bound_to_this_process
from tests.running import free_port, wait_for

NUMBER = 2
TRANSACTIONS = "__transaction_state"
PROPERTIES = """\
process.roles=broker
node.id={number}
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port}
advertised.listeners=PLAINTEXT://{host}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=logs
transaction.state.log.replication.factor=2
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
broker.heartbeat.interval.ms=500
"""
OF_THE_FIRST = """\
# A dead broker is noticed within six seconds; less, and one that is only slow loses what it leads.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
# What it led before it was slow or dead comes back to it at once.
leader.imbalance.check.interval.seconds=1
leader.imbalance.per.broker.percentage=0
"""


class SecondBroker:
    def __init__(self, first: kafka.Kafka, folder: Path) -> None:
        self._folder = folder
        self._address = first.connection.address
        self._admin = AdminClient({"bootstrap.servers": self._address, "log_level": 2})
        where = {"host": first.connection.host, "port": free_port(), "controller": first.ports["kafka_controller"]}
        folder.mkdir()
        (folder / "server.properties").write_text(PROPERTIES.format(number=NUMBER, **where))
        (folder / "log4j2.properties").write_text(kafka.LOGGING)
        told = dict(
            line.split("=", 1) for line in (first.folder / "logs" / "meta.properties").read_text().splitlines() if "=" in line
        )
        self._java("kafka.tools.StorageTool", "format", "-t", told["cluster.id"], "-c", "server.properties").communicate()

    def start(self) -> None:
        self._process = self._java("-Xmx256m", "kafka.Kafka", "server.properties")
        wait_for("both brokers, with a leader for everything", self._is_whole)
        Producer({"bootstrap.servers": self._address, "transactional.id": "first"}).init_transactions(
            30
        )  # now there are coordinators

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(30)

    def leads(self, transactional_id: str) -> bool:
        """Whether it coordinates the transactions of this id: by Kafka's rule, the leader of the partition of its hash."""
        partitions = self._admin.list_topics(TRANSACTIONS, timeout=10).topics[TRANSACTIONS].partitions
        return bool(partitions[_java_hash(transactional_id) % len(partitions)].leader == NUMBER)

    def _is_whole(self) -> bool:
        there = self._admin.list_topics(timeout=10)
        led = all(one.leader >= 0 for topic in there.topics.values() for one in topic.partitions.values())
        return NUMBER in there.brokers and led

    def _java(self, *arguments: str) -> "subprocess.Popen[bytes]":
        log = (self._folder / "broker.log").open("ab")
        command = bound_to_this_process([*kafka._java(), *arguments])
        with log:
            return subprocess.Popen(command, cwd=self._folder, env=base_environment(), stdout=log, stderr=log)


@contextmanager
def second_broker(first: kafka.Kafka, folder: Path) -> Iterator[SecondBroker]:
    broker = SecondBroker(first, folder / "second broker")
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def _java_hash(text: str) -> int:
    """Of a Java string, without its sign."""
    value = 0
    for letter in text.encode("utf-16-be")[1::2]:
        value = (31 * value + letter) & 0xFFFFFFFF
    return value & 0x7FFFFFFF
