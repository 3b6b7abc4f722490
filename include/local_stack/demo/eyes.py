"""How somebody outside sees what a sink has committed: the newest version of its log, and the newest batch in it."""

import json
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition
from psycopg2.extensions import connection as PostgresConnection

from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack


@dataclass(frozen=True)
class Batch:
    generation: int
    number: int
    ends: dict[int, int]
    watermark_ms: int = 0  # of a stateful stream


class Eye(Protocol):
    def version(self) -> int:
        """-1 if there is none yet."""

    def note(self, version: int) -> dict[str, Any]: ...


@dataclass(frozen=True)
class LakeEye:
    """On the log of a Delta table."""

    log: Path

    def version(self) -> int:
        return max((int(file.stem) for file in self.log.glob("*.json") if file.stem.isdecimal()), default=-1)

    def note(self, version: int) -> dict[str, Any]:
        with suppress(FileNotFoundError, ValueError):
            for line in (self.log / f"{version:020d}.json").read_text().splitlines():
                info = json.loads(line).get("commitInfo")
                if info and info.get("userMetadata"):
                    return dict(json.loads(info["userMetadata"]))
        return {}


@dataclass
class WarehouseEye:
    """On the books that lie beside a table of PostgreSQL."""

    stack: Stack
    table: str

    @cached_property
    def _connection(self) -> PostgresConnection:
        connection = self.stack.postgres.connect(WAREHOUSE)
        connection.autocommit = True
        return connection

    def version(self) -> int:
        found = self._one("SELECT version FROM tidemark.sink WHERE target = %s", f"public.{self.table}")
        return int(found[0]) if found else -1

    def note(self, version: int) -> dict[str, Any]:
        query = "SELECT note FROM tidemark.sink_commit WHERE target = %s AND version = %s"
        found = self._one(query, f"public.{self.table}", version)
        return dict(json.loads(found[0])) if found else {}

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('tidemark.reject')")  # the books are made with the first start
            if cursor.fetchone() == (None,):
                return None
            cursor.execute(query, values)
            return cursor.fetchone()


@dataclass
class TopicEye:
    """On the log of commits that lies beside an output topic, in partition 0 of its tidemarks."""

    address: str
    topic: str
    _notes: dict[int, dict[str, Any]] = field(default_factory=dict)

    @cached_property
    def _consumer(self) -> Consumer:
        consumer = Consumer(reader_settings(self.address))
        consumer.assign([TopicPartition(f"{self.topic}.tidemarks", 0, 0)])
        return consumer

    def version(self) -> int:
        while (message := self._consumer.poll(0.05)) is not None:
            if message.error() is None:
                told = json.loads(message.value() or b"")
                self._notes[told["version"]] = json.loads(told["note"])
        return max(self._notes, default=-1)

    def note(self, version: int) -> dict[str, Any]:
        return self._notes.get(version, {})


def reader_settings(address: str) -> dict[str, Any]:
    """Of a plain consumer that sees committed records alone."""
    return {
        "bootstrap.servers": address,
        "group.id": "stranger",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "log_level": 2,  # the topic is not there before its stream has begun
    }


def newest_batch(eye: Eye) -> Batch:
    for version in range(eye.version(), -1, -1):
        note = eye.note(version)
        if note.get("kind") == "batch":
            mark = note["tidemark"]
            ends = {int(number): end for number, end in mark["offsets"].items()}
            return Batch(mark["generation"], mark["batch"], ends, (mark.get("clock") or {}).get("watermark_ms", 0))
    return Batch(0, -1, {})
