"""Sends the outputs of a slot's records, in order; a record of which one output is too large goes to the rejects instead."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from include.contract.identity import rejects_topic
from include.tidemarks.note import LedgerLine
from jobs.kafka.producers import BY_KEY, produce
from jobs.kafka.slot_plan import Outcome, Place, SlotPlan

SOURCE = "tidemark-source"  # the header that tells where a record came from: epoch/partition/offset/number of the output
Headers = list[tuple[str, str | bytes | None]]
FRAME_BYTES = 512  # of a record beside key and value: header, batch, at most


class OutOfOrder(Exception):
    """Records of a partition came otherwise than in their order: nothing is committed."""


class Sending:
    def __init__(self, producer: Producer, plan: SlotPlan, slot: int, deadline: float, heard: Callable[..., None]) -> None:
        """`heard`: is told what the broker refuses, and of which record, if they are sent one by one."""
        self._heard = heard
        self._producer = producer
        self._plan = plan
        self._target = plan.target
        self._lines = lines = plan.lines_of(slot)
        self._allowed = plan.rejects_allowed
        self._deadline = deadline
        self._epoch = plan.note.tidemark.epoch if plan.note.tidemark else 0
        self._places = {number: _place(self._target.partition, number, self._target.partitions) for number in lines}
        self._next = {number: line.start for number, line in lines.items()}
        self._sent: Counter[int] = Counter()
        self._rejected: Counter[int] = Counter()
        self._outputs: Counter[int] = Counter()
        self.first_reject = ""

    def send(self, batch: pa.RecordBatch) -> Outcome | None:
        """None if all is well so far."""
        for partition, offset, time_ms, outputs in _records(batch):
            due = self._next.get(partition)
            if due is None or not due <= offset < self._lines[partition].end:
                raise OutOfOrder(f"partition {partition}: offset {offset:,} came where {due} or more was due")
            self._next[partition] = offset + 1
            if why := self._refuses((partition, offset), outputs):
                self._reject(partition, offset, why)
                continue
            self._sent[partition] += 1
            for number, (key, value) in enumerate(outputs):
                self._produce(partition, offset, number, time_ms, key, value)
        self._producer.poll(0)
        if time.monotonic() > self._deadline:
            return Outcome.TOO_LONG
        return Outcome.TOO_MANY_REJECTS if self._rejected.total() > self._allowed else None

    def booked(self) -> Iterator[LedgerLine]:
        """As the driver has counted, less what was rejected here."""
        for number, line in self._lines.items():
            sent, rejected = self._sent[number], self._rejected[number]
            if sent + rejected != line.delivered:
                raise OutOfOrder(f"partition {number}: {line.delivered:,} records were counted, {sent + rejected:,} came")
            yield line.model_copy(update={"delivered": sent, "rejected": rejected, "outputs": self._outputs[number]})

    def _refuses(self, place: Place, outputs: list[tuple[bytes | None, bytes | None]]) -> str:
        for key, value in outputs:
            if (size := len(key or b"") + len(value or b"") + FRAME_BYTES) > self._target.largest_bytes:
                return f"an output of {size:,} bytes is more than the {self._target.largest_bytes:,} that the topic takes"
        return self._plan.known_rejects.get(place, "")

    def _produce(self, partition: int, offset: int, number: int, time_ms: int, key: bytes | None, value: bytes | None) -> None:
        topic, where = self._target.topic, self._places[partition]
        headers: Headers = [(SOURCE, b"%d/%d/%d/%d" % (self._epoch, partition, offset, number))]
        heard = partial(self._heard, place=(partition, offset)) if self._plan.one_by_one else None
        while True:
            try:
                self._producer.produce(topic, value, key, where, heard, timestamp=time_ms, headers=headers)
            except BufferError:  # the broker is slower than we are
                self._producer.poll(0.05)
            else:
                self._outputs[partition] += 1
                return

    def _reject(self, partition: int, offset: int, why: str) -> None:
        """Without its bytes, which are what is wrong with it; Kafka's source has them."""
        self._rejected[partition] += 1
        told = {
            "topic": self._target.source,
            "epoch": self._epoch,
            "partition": partition,
            "offset": offset,
            "spec_hash": self._plan.note.spec_hash,
            "generation": self._plan.note.generation,
            "why": why,
        }
        produce(self._producer, rejects_topic(self._target.topic), json.dumps(told), f"{self._epoch}/{partition}/{offset}")
        self.first_reject = self.first_reject or f"partition {partition}, offset {offset:,}: {why}"


def _place(rule: str | int, source_partition: int, partitions: int) -> int:
    if rule == "key":
        return BY_KEY
    return rule if isinstance(rule, int) else source_partition % partitions


def _records(batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, list[tuple[bytes | None, bytes | None]]]]:
    """Column by column, by way of NumPy: that makes Python's own values ten times faster than Arrow does."""
    partitions, offsets, times = (_values(batch.column(number).fill_null(0)) for number in range(3))
    outputs = batch.column(3)
    flat = outputs.flatten()
    pairs = list(zip(_values(flat.field(0)), _values(flat.field(1)), strict=True))
    begin = 0
    for partition, offset, time_ms, length in zip(partitions, offsets, times, _values(outputs.value_lengths()), strict=True):
        yield partition, offset, time_ms, pairs[begin : begin + length]
        begin += length


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values
