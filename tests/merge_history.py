"""Histories of a table that holds the newest row of each key, without Kafka and without a control database: generations, batches,
crashes at chosen places and replays with other batch sizes, in one warm session. The records are what a topic would hold.
"""

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from include.checkpoints.spark_log import BatchRange
from include.contract.catalog import Stream, find_stream
from include.contract.places import Places
from include.control.generations import Generation
from include.tidemarks.note import ADOPTED, Tidemark
from jobs.batch import Delivery
from jobs.failpoints import Failpoint, FailpointReached
from jobs.row_shape import row_shape
from jobs.sinks import Sinks
from jobs.take_over import TakenStream
from jobs.transform import rows_of
from tests.checker import Place
from tests.streams import at, crash

RECORD = (
    "_topic string, _partition int, _offset bigint, _kafka_timestamp timestamp, _key binary,"
    " _headers array<struct<key: string, value: binary>>, value binary"
)


@dataclass(frozen=True)
class SteadyTopic:
    """It is never made anew."""

    name: str
    address: str = "nowhere"

    def lasting_id(self) -> str:
        return "the topic"


@dataclass
class History:
    spark: SparkSession
    stream: Stream
    places: Places
    partitions: int = 2
    topic: list[list[dict[str, Any]]] = field(default_factory=list)
    held: int = 0  # newest generation

    def __post_init__(self) -> None:
        self.topic = [[] for _ in range(self.partitions)]
        self._sinks = Sinks(self.spark, self.stream, self.places, row_shape(self.spark, self.stream), "spec")

    def append(self, partition: int, record: dict[str, Any]) -> None:
        self.topic[partition].append(record)

    def start(self) -> None:
        """Takes over as a driver does: fence, read, adopt."""
        self.held += 1
        generation = Generation(self.held, uuid.uuid4().hex, "tests")
        quarantine, sinks = self._sinks.of(generation)
        for table in (quarantine.table, *sinks.values()):
            table.fence()
        for table in (quarantine.table, *sinks.values()):
            state = table.state()
            offsets = state.tidemark.offsets if state.tidemark else dict.fromkeys(range(self.partitions), 0)
            mark = Tidemark(generation=self.held, batch=ADOPTED, offsets=offsets, topic_id="the topic", epoch=1)
            table.adopt(state, mark, pinned=True)
        taken = TakenStream(generation, "the topic", Path(), quarantine, sinks, None)  # type: ignore[arg-type]
        self._delivery, self._batch = Delivery(self.stream, SteadyTopic("t"), taken), 0  # type: ignore[arg-type]
        marks = [sink.tidemark.offsets for sink in sinks.values()]
        self._at = {number: min(mark.get(number, 0) for mark in marks) for number in range(self.partitions)}

    def deliver(self, records: int, crash_at: Failpoint | None = None) -> None:
        """The next so many of each partition; a crash ends the generation."""
        ends = {number: min(start + records, len(self.topic[number])) for number, start in self._at.items()}
        span = BatchRange(dict(self._at), ends)
        if ends == self._at:
            return
        rows = rows_of(self.spark.createDataFrame(list(self._records(span)), RECORD), self.stream)
        if crash_at is None:
            self._delivery.deliver_range(rows, self._batch, span)
        else:
            self._deliver_and_crash(rows, span, crash_at)
        self._at, self._batch = ends, self._batch + 1

    def _deliver_and_crash(self, rows: Any, span: BatchRange, crash_at: Failpoint) -> None:
        with at(crash_at, crash):
            try:
                self._delivery.deliver_range(rows, self._batch, span)
            except FailpointReached:
                return

    def _records(self, span: BatchRange) -> Any:
        for number, end in span.ends.items():
            for offset in range(span.starts[number], end):
                value = json.dumps(self.topic[number][offset]).encode()
                yield "t", number, offset, None, None, None, value

    def records(self) -> dict[Place, dict[str, Any]]:
        return {(number, offset): record for number, part in enumerate(self.topic) for offset, record in enumerate(part)}


def open_history(spark: SparkSession, name: str, lake: Path) -> History:
    stream = find_stream(name)
    sinks = {sink: str(lake / settings.table) for sink, settings in sorted(stream.spec.sinks.items())}
    return History(
        spark, stream, Places(sinks, str(lake / "quarantine" / name), lake / "checkpoints" / name, lake / "backups" / name)
    )
