"""Delivers one batch to every sink, by the rules of P3. Everything it needs was made by take-over.

P3.1 the range, from the offset log; P3.2 each record has its fate (`rows_of`); then for each sink, by name: the rows that it
lacks are written and counted in one pass, but nobody sees them yet; P3.3 bad records are quarantined, before the first commit;
P3.4 rows, ledger and the moved tidemark (P3.5) are committed at once, and the topic is the same before and after.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.checkpoints.spark_log import BatchRange, read_range
from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from include.tidemarks.note import LedgerLine, Tidemark
from include.topics.topic import Topic, TopicMissing
from jobs.counting import Bounds, Counting, check_rows
from jobs.exits import classify
from jobs.failpoints import Failpoint, reach
from jobs.poison import PoisonSearch
from jobs.sink import Sink
from jobs.take_over import TakenStream
from jobs.transform import RAW

MISSING_SECONDS, LOOK_SECONDS = 5, 0.5
KeepBad = Callable[..., None]  # Quarantine.insert, with the bad records and their bounds


class TopicChanged(StreamFailure):
    """The topic was deleted, and perhaps made anew, while the stream ran."""

    exit_class = ExitClass.TOPIC_CHANGED


class TopicWentBack(StreamFailure):
    """The topic ends before what was delivered of it: the broker's disks were put back from an older copy (P1.6)."""

    exit_class = ExitClass.TOPIC_CHANGED


class StartAboveTidemark(StreamFailure):
    """A batch begins above what a sink holds: the records between would be lost. Only a wrong checkpoint leads here."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


@dataclass(frozen=True)
class Delivered:
    batch: int
    read: int
    delivered: int
    quarantined: int
    ends: dict[int, int]


class Delivery:
    def __init__(self, stream: Stream, topic: Topic, taken: TakenStream) -> None:
        self._stream = stream
        self._topic = topic
        self._topic_id = taken.topic_id
        self._checkpoint = taken.checkpoint
        self._quarantine = taken.quarantine
        self._sinks = [taken.sinks[name] for name in sorted(taken.sinks)]
        self._poison = PoisonSearch(taken.quarantine.table.spark, stream, topic.address)

    def deliver(self, rows: DataFrame, batch: int) -> Delivered:
        return self.deliver_range(rows, batch, read_range(self._checkpoint, batch, self._stream.spec.source.topic))  # P3.1

    def deliver_range(self, rows: DataFrame, batch: int, span: BatchRange) -> Delivered:
        """`rows` are `rows_of` the records of `span` (P3.2), all of them and no others."""
        behind = [sink for sink in self._sinks if not sink.tidemark.covers(span.ends)]
        for sink in behind:
            self._refuse_above(sink, span)
        lowest = Bounds.of(span, {number: min(sink.tidemark.next_offset(number) for sink in self._sinks) for number in span.ends})
        keep_bad = partial(self._quarantine.insert, rows.where("_bad"), lowest)
        if len(behind) > 1:
            rows = rows.drop(*RAW).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            ledgers = []
            for sink in behind:
                counting = Counting(Bounds.of(span, sink.tidemark.offsets), lowest)
                ledgers.append(self._deliver_to(sink, rows, batch, span, counting, keep_bad if sink is behind[0] else None))
        finally:
            if len(behind) > 1:
                rows.unpersist()
        return _summary(batch, span, ledgers)

    def _deliver_to(
        self, sink: Sink, rows: DataFrame, batch: int, span: BatchRange, counting: Counting, keep_bad: KeepBad | None
    ) -> list[LedgerLine]:
        open_batch = sink.open_batch()
        moved = sink.tidemark.raised_to(sink.generation.number, batch, span.ends)  # P3.5
        reach(Failpoint.BEFORE_WRITE)
        try:
            written = open_batch.write(_as_rows(counting.drop_and_count(rows), sink, moved))
        except PySparkException as error:
            if classify(error) is not ExitClass.POISON:
                raise
            raise self._poison.find(counting.bounds.ranges, error) from error
        ledger = counting.ledger()
        check_rows(written, ledger, sink.sink)
        reach(Failpoint.IN_WRITE)
        self.check_topic()
        if keep_bad and counting.bad_above_lowest:  # P3.3
            keep_bad(moved, bad=counting.bad_above_lowest, read=counting.read_above_lowest)
        reach(Failpoint.BEFORE_COMMIT)
        self.check_topic()
        booked = open_batch.commit(moved, ledger, self._quarantine.newest)  # P3.4
        reach(Failpoint.AFTER_COMMIT)
        self.check_topic()
        return booked

    def _refuse_above(self, sink: Sink, span: BatchRange) -> None:
        for number, start in span.starts.items():
            if start > (held := sink.tidemark.next_offset(number)):
                raise StartAboveTidemark(
                    f"The batch begins partition {number} at {start:,}, but sink {sink.sink} holds it only up to {held:,}: "
                    f"{start - held:,} offsets would be lost.",
                    state="Nothing was written.",
                    partition=number,
                    offset=held,
                )

    def check_topic(self) -> None:
        there = self._topic_id_there()
        if there != self._topic_id:
            raise TopicChanged(
                f"Topic {self._topic.name} was deleted while the stream ran: its id was {self._topic_id}, now it is {there}.",
                state="The sinks hold what they committed before.",
                topic_id=there,
            )

    def _topic_id_there(self) -> str:
        """A broker that has just started may not know a topic yet: only one that is missing for a while is gone."""
        deadline = time.monotonic() + MISSING_SECONDS
        while True:
            try:
                return self._topic.topic_id()
            except TopicMissing:
                if time.monotonic() > deadline:
                    return "that of no topic at all"
                time.sleep(LOOK_SECONDS)


def _as_rows(delivered: DataFrame, sink: Sink, moved: Tidemark) -> DataFrame:
    ours = {
        "_topic_epoch": F.lit(moved.epoch).cast("int"),
        "_generation": F.lit(moved.generation).cast("bigint"),
        "_batch_id": F.lit(moved.batch).cast("bigint"),
    }
    return delivered.withColumns(ours).select(*sink.columns)


def _summary(batch: int, span: BatchRange, ledgers: list[list[LedgerLine]]) -> Delivered:
    """Of the sink that lacked most."""
    fullest = max(ledgers, key=lambda lines: sum(line.read for line in lines), default=[])
    read, delivered, quarantined = (sum(getattr(line, what) for line in fullest) for what in ("read", "delivered", "quarantined"))
    return Delivered(batch, read, delivered, quarantined, dict(span.ends))


def refuse_if_shorter(latest: Mapping[int, int], done: Delivered) -> None:
    for number, end in done.ends.items():
        if end > latest.get(number, end):
            raise TopicWentBack(
                f"Partition {number} was delivered up to {end:,}, but Kafka now ends at {latest[number]:,}.",
                state="Every batch is whole; the records that come next at those offsets would not be the next records.",
                partition=number,
                offset=end,
            )
