"""A stream of a test's own: topic, stream file, tables; records whose fate is known; drivers in this process or of their own."""

import json
import os
import random
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.local_stack.stack import Stack
from jobs import batch, quarantine, stateful_delivery, take_over
from jobs.driver_arguments import parse
from jobs.exits import ended_by
from jobs.failpoints import Failpoint, FailpointReached
from jobs.kafka import log_writer, open_batch, slot_attempt
from jobs.maintenance import compaction
from jobs.postgres import postgres_sink
from jobs.run_stream import Driver
from tests.checker import Place, problems
from tests.running import PROJECT, wait_for

BAD_VALUES: list[bytes | None] = [
    None,
    b"",
    b"{not json",
    b'{"event_id": "\xff\xfe"}',
    b"[1, 2]",
    b'{"event_id": "e", "user_id": "u", "amount": "much", "ts": "2026-01-02T03:04:05Z"}',
    b'{"event_id": "e", "amount": 1}',
    b'{"event_id": "' + b"x" * 1_000_001 + b'"}',
]


@dataclass
class TrialStream:
    """Everything is named for the stream, so tests on one stack do not meet."""

    stack: Stack
    folder: Path
    partitions: int = 3
    name: str = field(default_factory=lambda: f"s{uuid.uuid4().hex[:10]}")
    sent: dict[Place, dict[str, str]] = field(default_factory=dict)
    topic_settings: dict[str, str] = field(default_factory=dict)
    key: bytes | None = None
    lost: set[Place] = field(default_factory=set)  # deleted by the broker before they were delivered, as a test has seen to
    config: Path = Path()
    changes: dict[str, Any] = field(default_factory=dict)  # of the file, see write_file
    own_control: ControlDatabase | None = None  # another than the stack's, at which its supervision does not look

    def __post_init__(self) -> None:
        if self.config == Path():
            self.config = self.folder / "config" / self.name
        for folder in ("schemas", "streams"):
            (self.config / folder).mkdir(parents=True, exist_ok=True)
        (self.config / "schemas" / "order.yaml").write_text((PROJECT / "config" / "schemas" / "order.yaml").read_text())
        self.make_topic()
        self.write_file(**self.changes)

    @property
    def table(self) -> Path:
        return self.stack.home.lake / self.name

    @property
    def quarantine(self) -> Path:
        return self.stack.home.lake / "quarantine" / self.name

    @property
    def checkpoints(self) -> Path:
        return self.stack.home.folder / "checkpoints" / self.name

    def write_file(self, **changes: Any) -> None:
        """`source__start="latest"` changes a key inside a section."""
        content = yaml.safe_load((PROJECT / "config" / "streams" / "orders_raw.yaml").read_text())
        content["source"] |= {"topic": self.name, "max_records_per_batch": 300}
        content["trigger"] = "1 second"
        content["sinks"]["lake"]["table"] = self.name
        for key, value in changes.items():
            section, _, inner = key.partition("__")
            if inner:
                content[section][inner] = value
            else:
                content[section] = value
        (self.config / "streams" / f"{self.name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))

    def make_topic(self) -> None:
        admin = self.admin()
        admin.create_topics([NewTopic(self.name, self.partitions, 1, config=self.topic_settings)])[self.name].result(15)

    def configure(self, topic: str, **settings: str) -> None:
        """`cleanup_policy="compact"` sets `cleanup.policy`."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        admin = self.admin()
        admin.incremental_alter_configs([resource])[resource].result(15)

    def remake_topic(self) -> None:
        self.delete_topic()
        self.make_topic()

    def remake_topic_as(self, settings: dict[str, str]) -> None:
        self.topic_settings = settings
        self.remake_topic()

    def delete_topic(self) -> None:
        admin = self.admin()
        admin.delete_topics([self.name])[self.name].result(15)
        wait_for("the topic to be gone", lambda: self.name not in admin.list_topics(timeout=10).topics, 30)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.stack.kafka.connection.address})

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.stack.kafka.connection.address, "message.max.bytes": 2_000_000, **settings})

    def send(self, count: int, *, bad: int = 0, filtered: int = 0, partition: int | None = None) -> None:
        """Good ones, then filtered, then bad, dealt over the partitions. Only what the broker acknowledged counts as sent."""
        producer = self.producer()
        for number in range(count + filtered + bad):
            fate = "good" if number < count else "filtered" if number < count + filtered else "bad"
            identity = uuid.uuid4().hex
            value = BAD_VALUES[number % len(BAD_VALUES)] if fate == "bad" else order(identity, 5 if fate == "good" else -5)
            place = number % self.partitions if partition is None else partition
            producer.produce(self.name, value, self.key, partition=place, on_delivery=self.acknowledged(fate, identity))
            producer.poll(0)
        assert producer.flush(30) == 0

    def acknowledged(self, fate: str, identity: str) -> Any:
        def heard(error: Any, message: Any) -> None:
            assert error is None, error
            self.sent[message.partition(), message.offset()] = {"fate": fate, "id": identity}

        return heard

    def run(self, spark: SparkSession, *arguments: str, **more: str) -> None:
        """A driver in this process, until everything sent is delivered. Raises what ended it."""
        with self.environment(**more):
            Driver(parse([self.name, "--once", *arguments])).drive(lambda: spark)

    @contextmanager
    def running(self, spark: SparkSession, *arguments: str, **more: str) -> Iterator["Running"]:
        """A driver in a thread of this process, stopped when the block ends. Raises what ended it, unless that was awaited."""
        with self.environment(**more):
            running = Running(Driver(parse([self.name, *arguments])), spark)
            try:
                yield running
            except BaseException as error:
                if running.failure is None:
                    raise
                raise error from running.failure  # what was waited for in vain did not come because of it
            finally:
                running.stop()
        if running.failure and not running.was_awaited:
            raise running.failure

    def wait_until_delivered(self, seconds: float = 90) -> None:
        wait_for(f"everything sent to {self.name} to be in its tables", lambda: self.problems() == [], seconds)

    def rows(self, suffix: str = "") -> list[dict[str, Any]]:
        return DeltaTable(self.table.with_name(self.name + suffix)).to_pyarrow_table().to_pylist()

    def notes(self) -> list[dict[str, Any]]:
        """Of every commit of the table that has one, oldest first."""
        history = reversed(DeltaTable(self.table).history())
        return [json.loads(commit["userMetadata"]) for commit in history if commit.get("userMetadata")]

    @contextmanager
    def environment(self, **more: str) -> Iterator[None]:
        """Drivers in threads share it, so it is never empty in between."""
        wanted = self.variables(**more)
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def variables(self, **more: str) -> dict[str, str]:
        control = self.own_control
        own = {"AIRFLOW_CONN_TIDEMARK_CONTROL": control.where.to_airflow_json("postgres")} if control else {}
        return {**self.stack.job_environment(), "TIDEMARK_CONFIG": str(self.config), **own, **more}

    def start(self, *arguments: str, failpoint: str | None = None, jvm: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """A driver of its own, as a person or a launcher would start it; `jvm`: one that is lent to it."""
        more = {**({"TIDEMARK_FAILPOINT": failpoint} if failpoint else {}), **(jvm or {})}
        command = [sys.executable, "-m", "tests.warm_jvm" if jvm else "jobs.run_stream", self.name, *arguments]
        with (self.folder / f"{self.name}.log").open("a") as out:
            return subprocess.Popen(command, cwd=PROJECT, env=self.variables(**more), stdout=out, stderr=subprocess.STDOUT)

    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()

    def problems(self, lost: frozenset[Place] = frozenset(), epoch: int | None = None) -> list[str]:
        return problems(self.sent, self.table, self.quarantine, lost | self.lost, epoch)


@contextmanager
def at(wanted: Failpoint, act: Callable[[], None]) -> Iterator[None]:
    """Does something whenever a driver of this process comes by."""
    modules = (take_over, batch, stateful_delivery, quarantine, postgres_sink, compaction, open_batch, slot_attempt, log_writer)
    before = [module.reach for module in modules]

    def reach(point: Failpoint) -> None:
        before[0](point)
        if point is wanted:
            act()

    for module in modules:
        module.reach = reach
    try:
        yield
    finally:
        for module, original in zip(modules, before, strict=True):
            module.reach = original


def once(act: Callable[[], object]) -> Callable[[], None]:
    done = threading.Event()

    def act_once() -> None:
        if not done.is_set():
            done.set()
            act()

    return act_once


def crash() -> None:
    """As an act at a failpoint: the driver goes no further."""
    raise FailpointReached


class Running:
    def __init__(self, driver: Driver, spark: SparkSession) -> None:
        self.driver = driver
        self.failure: BaseException | None = None
        self.was_awaited = False
        self._thread = threading.Thread(target=self._drive, args=(spark,))
        self._thread.start()

    def _drive(self, spark: SparkSession) -> None:
        try:
            self.driver.drive(lambda: spark)
        except Exception as failure:  # noqa: BLE001 - raised again in the test's thread
            self.failure = failure

    def stop(self) -> None:
        self.driver.lifecycle.ask_to_stop("the test is over")
        self._thread.join(120)

    def wait_until_it_fails(self) -> BaseException:
        self.was_awaited = True
        self._thread.join(90)
        assert self.failure is not None, "the stream did not fail within 90 s"
        return self.failure


def exit_class_of(error: BaseException) -> ExitClass:
    return ended_by(error).exit_class


def order(identity: str, amount: float) -> bytes:
    order = {"event_id": identity, "user_id": f"u{identity[:2]}", "amount": amount, "ts": "2026-11-16T10:00:00Z", "note": None}
    return json.dumps(order).encode()


def damaged(chance: random.Random, value: bytes) -> bytes:
    """With one to three bytes that are anything."""
    bytes_there = bytearray(value)
    for _ in range(chance.randint(1, 3)):
        bytes_there[chance.randrange(len(bytes_there))] = chance.randrange(256)
    return bytes(bytes_there)
