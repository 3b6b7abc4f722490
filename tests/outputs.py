"""A stream of a test's own into a topic; and what a plain consumer of committed records reads there, compared with what the
broker acknowledged of the source. Shares no code with the product.
"""

import json
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.checker import Place
from tests.streams import TrialStream

SOURCE = "tidemark-source"


@dataclass(frozen=True)
class Output:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: dict[str, bytes]

    @property
    def source(self) -> tuple[int, int, int, int]:
        """Epoch, partition, offset and number of the output, as its header says."""
        epoch, partition, offset, number = (int(part) for part in self.headers[SOURCE].split(b"/"))
        return epoch, partition, offset, number

    @property
    def row(self) -> dict[str, Any]:
        return json.loads(self.value or b"null")


@dataclass
class OutputStream(TrialStream):
    more: dict[str, Any] = field(default_factory=dict)  # of the sink

    def __post_init__(self) -> None:
        super().__post_init__()
        self.write_file()

    @property
    def output(self) -> str:
        return f"{self.name}_out"

    def write_file(self, **changes: Any) -> None:
        sink = {
            "kind": "kafka",
            "connection": "kafka_main",
            "topic": self.output,
            "key": "user_id",
            "create": {"partitions": 4},
            **self.more,
        }
        settings = {name: value for name, value in sink.items() if value is not None}
        super().write_file(**{"sinks": {"out": settings}, **changes})

    def outputs(self, topic: str | None = None, isolation: str = "read_committed") -> list[Output]:
        """In the order of each partition."""
        found = []
        settings = {
            "bootstrap.servers": self.stack.kafka.connection.address,
            "group.id": "stranger",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
        with closing(Consumer(settings)) as consumer:
            name = topic or self.output
            partitions = consumer.list_topics(name, timeout=10).topics[name].partitions
            consumer.assign([TopicPartition(name, number, 0) for number in partitions])
            ended: set[int] = set()
            while len(ended) < len(partitions):
                message = consumer.poll(20)
                assert message is not None, f"{name} gives no answer"
                if message.error() is None:
                    headers = dict(message.headers() or [])
                    what = message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1]
                    found.append(Output(*what, headers))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    ended.add(message.partition())
        return found

    def rejects(self) -> list[dict[str, Any]]:
        return [one.row for one in self.outputs(f"{self.output}.rejects")]

    def problems_of_outputs(self, rejected: frozenset[Place] = frozenset()) -> list[str]:
        """Of outputs that are one for each record: lost, twice, strange, other than sent, or out of order."""
        outputs = self.outputs()
        there = Counter(one.source[1:3] for one in outputs)
        good = {place: record["id"] for place, record in self.sent.items() if record["fate"] == "good" and place not in rejected}
        other = [one.source for one in outputs if one.row["event_id"] != good.get(one.source[1:3])]
        found = {
            "lost": sorted(set(good) - set(there)),
            "delivered twice": sorted(place for place, times in there.items() if times > 1),
            "delivered but not expected": sorted(set(there) - set(good)),
            "with another id": other,
            "out of order": _out_of_order(outputs),
        }
        return [f"{len(places)} {title}, first {places[0]}" for title, places in found.items() if places]

    def booked(self) -> dict[str, int]:
        """The sums of the sink's own ledger."""
        lines = [line for note in self.told() for line in note.get("ledger", [])]
        names = ("read", "delivered", "quarantined", "rejected", "filtered")
        return {name: total for name in names if (total := sum(line.get(name, 0) for line in lines))}

    def marks(self) -> list[Output]:
        return [one for one in self.outputs(f"{self.output}.tidemarks") if one.partition > 0]

    def told(self) -> list[dict[str, Any]]:
        """The notes of the log of commits, oldest first."""
        log = [one for one in self.outputs(f"{self.output}.tidemarks") if one.partition == 0]
        return [json.loads(one.row["note"]) for one in log]


def _out_of_order(outputs: list[Output]) -> list[tuple[int, int]]:
    """Within each partition of the topic the records of one source partition stand in their order."""
    last: dict[tuple[int, int], int] = defaultdict(lambda: -1)
    found = []
    for one in sorted(outputs, key=lambda output: (output.partition, output.offset)):
        _, partition, offset, _ = one.source
        if offset < last[one.partition, partition]:
            found.append((partition, offset))
        last[one.partition, partition] = offset
    return found
