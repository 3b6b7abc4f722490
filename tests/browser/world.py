"""The world of the screenshots: a stack of its own with three streams, one of which cannot go on without an approval.

Made anew each time, so that generations and counts are the same in every picture. Nothing of it is left running.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from include.control.database import ControlDatabase
from include.control.stream_states import read_states
from include.local_stack.home import VAR, StackHome
from include.local_stack.progress import say, step
from include.local_stack.stack import Stack
from include.processes.interruptions import held_back
from tests.running import PROJECT, wait_for
from tests.streams import order

HOME = StackHome(VAR / "screenshots")
PARTITIONS = 4
STREAMS = {"orders_raw": {}, "orders_archive": {}, "returns_raw": {"enabled": False}}
STOPPED = "orders_archive"
LOST_BEFORE = {1: 5_120, 3: 5_300}  # per partition: what Kafka has deleted up to here; the sink holds up to 5,000
PATIENCE_SECONDS = 600  # two cold drivers at once took 220 s on a busy machine of two cores


@dataclass(frozen=True)
class World:
    stack: Stack
    supervised: str  # a run of supervise_streams that saw the stopped stream
    waiting: str  # a run of start_stream that waits for a person


@contextmanager
def world() -> Iterator[World]:
    stack = Stack(HOME)
    stack.down()
    shutil.rmtree(HOME.folder, ignore_errors=True)
    os.environ["TIDEMARK_CONFIG"] = str(_write_config(HOME.folder / "config"))
    say("A stack of its own, in var/screenshots")
    try:
        stack.up()
        ControlDatabase(stack.postgres.connection("tidemark")).migrate()
        _make_topics(stack)
        yield _bring_about(stack)
    finally:
        with held_back():
            stack.down()


def _bring_about(stack: Stack) -> World:
    _send(stack, "orders_raw", 20_000)
    _send(stack, STOPPED, 20_000)
    with step("supervision starts the streams, and they deliver"):
        for name in ("orders_raw", STOPPED):
            wait_for(f"{name} to have delivered everything", lambda name=name: _state(stack, name) == "idle", PATIENCE_SECONDS)
    with step(f"stop_stream {STOPPED}"):
        conf = {"stream": STOPPED, "reason": "The disk of the archive is being replaced"}
        stack.api_server.run_dag("stop_stream", "stop_before_the_gap", conf, PATIENCE_SECONDS)
    stopped_at = datetime.now(UTC)
    _send(stack, STOPPED, 2_000)
    _delete_records(stack, STOPPED, LOST_BEFORE)
    with step(f"start_stream {STOPPED}, until it waits for a person"):
        waiting = _start_until_it_waits(stack)
    with step("a whole run of supervise_streams"):
        supervised = _supervised_since(stack, stopped_at)
    return World(stack, supervised, waiting)


def _write_config(folder: Path) -> Path:
    for name in ("schemas", "streams"):
        (folder / name).mkdir(parents=True)
    shutil.copy(PROJECT / "config" / "schemas" / "order.yaml", folder / "schemas")
    for name, changes in STREAMS.items():
        content = yaml.safe_load((PROJECT / "config" / "streams" / "orders_raw.yaml").read_text())
        content["source"]["topic"] = content["sinks"]["lake"]["table"] = name
        (folder / "streams" / f"{name}.yaml").write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
    return folder


def _make_topics(stack: Stack) -> None:
    admin = _admin(stack)
    for answer in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in STREAMS]).values():
        answer.result(15)


def _send(stack: Stack, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": stack.kafka.connection.address})
    for number in range(count):
        producer.produce(topic, order(f"{number:032x}", 5), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0


def _delete_records(stack: Stack, topic: str, before: dict[int, int]) -> None:
    """As retention would, but at once."""
    admin = _admin(stack)
    for answer in admin.delete_records([TopicPartition(topic, *each) for each in before.items()]).values():
        answer.result(15)


def _admin(stack: Stack) -> AdminClient:
    """To be kept until it has answered."""
    return AdminClient({"bootstrap.servers": stack.kafka.connection.address, "log_level": 5})


def _start_until_it_waits(stack: Stack) -> str:
    server, run = stack.api_server, "start_after_the_gap"
    conf = {"stream": STOPPED, "reason": "The new disk is in place"}
    token = server.log_in()
    server.ask("/api/v2/dags/start_stream/dagRuns", token, {"dag_run_id": run, "logical_date": None, "conf": conf})
    task = f"/api/v2/dags/start_stream/dagRuns/{run}/taskInstances/approve"
    wait_for("the approval to wait", lambda: server.ask(task, token)["state"] in ("deferred", "awaiting_input"), PATIENCE_SECONDS)
    return run


def _supervised_since(stack: Stack, since: datetime) -> str:
    server, token = stack.api_server, stack.api_server.log_in()
    begun = f"/api/v2/dags/supervise_streams/dagRuns?start_date_gte={quote(since.isoformat())}&state=success"

    def finished() -> list[str]:
        return [run["dag_run_id"] for run in server.ask(begun, token)["dag_runs"]]

    wait_for("a run of supervise_streams to end", lambda: finished() != [], PATIENCE_SECONDS)
    return finished()[0]


def _state(stack: Stack, stream: str) -> str | None:
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        there = read_states(cursor).get(stream)
    return there.state if there else None
