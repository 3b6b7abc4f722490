"""Delivers a batch of a stateful stream (P6): the state is consumed in full, then the fate of each record is counted from Kafka.

1. what comes out of the stateful operators is kept, in full, before all else; 2. the range is read again, as a batch,
and each record gets its fate; 3. the counts are compared with those of Spark; 4. sinks get rows, or results, as ever. A batch
that every sink has already is consumed and no more.
"""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.checkpoints.spark_log import BatchRange, read_planned, read_range
from include.contract.catalog import Stream
from include.contract.fingerprint import time_hash
from include.contract.stream_spec import WINDOW_START
from include.tidemarks.note import EventClock
from include.topics.topic import Topic
from jobs.batch import Delivered, Delivery
from jobs.batch_content import Records, Results
from jobs.failpoints import Failpoint, reach
from jobs.fates import Fates, check_with_spark, count_fates, mark_duplicates, with_lateness
from jobs.kept_rows import kept
from jobs.source import read_records
from jobs.spark_counts import read_counts
from jobs.take_over import TakenStream
from jobs.transform import RAW, rows_of


class StatefulDelivery:
    def __init__(self, spark: SparkSession, stream: Stream, topic: Topic, taken: TakenStream, query: str) -> None:
        self._spark = spark
        self._stream = stream
        self._topic = topic
        self._checkpoint = taken.checkpoint
        self._query = query
        self._time_hash = time_hash(stream)
        self._delivery = Delivery(stream, topic, taken)
        self._forgotten_ms = taken.plan.state.forgotten_through_ms if taken.plan.state else None
        self._highest_ms = max(
            (sink.tidemark.clock.highest_ms or 0 for sink in taken.sinks.values() if sink.tidemark.clock), default=0
        )
        self.check_topic = self._delivery.check_topic

    def deliver(self, out: DataFrame, batch: int) -> Delivered:
        span = read_range(self._checkpoint, batch, self._stream.spec.source.topic)
        watermark_ms, late_ms = self._watermarks(batch)
        clock = EventClock(watermark_ms=watermark_ms, late_ms=late_ms, time_hash=self._time_hash)
        with kept(out) as there:
            results = there.count()  # 1
            reach(Failpoint.AFTER_STATE)
            if not self._delivery.behind(span, clock):
                again = sum(end - span.starts[number] for number, end in span.ends.items())
                return Delivered(batch, 0, 0, 0, 0, dict(span.ends), again)
            records = read_records(self._spark, self._topic.address, self._topic.name, span.starts, span.ends)
            rows = with_lateness(rows_of(records, self._stream), self._stream, late_ms)  # 2
            return self._deliver(batch, span, clock, rows, there, results)

    def _deliver(
        self, batch: int, span: BatchRange, clock: EventClock, rows: DataFrame, out: DataFrame, results: int
    ) -> Delivered:
        spark_says, is_of_windows = read_counts(self._spark, self._query), self._stream.spec.aggregate is not None
        fated = rows if is_of_windows else mark_duplicates(rows, out)
        with kept(fated.drop(*RAW)) as slim:
            fates = count_fates(slim, self._stream, spark_says)
            check_with_spark(fates, slim, self._stream, clock.late_ms, spark_says)  # 3
            told = self._clock(clock, fates)
            content = self._results(out, results, told, fates) if is_of_windows else Records(slim, told)
            done = self._delivery.deliver_range(fated, batch, span, content)  # 4
            self._highest_ms = told.highest_ms or 0
            return done

    def _watermarks(self, batch: int) -> tuple[int, int]:
        """What the batch closes, and by what it judged late records: the watermark of the batch before."""
        topic = self._stream.spec.source.topic
        late = read_planned(self._checkpoint, batch - 1, topic).watermark_ms if batch else 0
        return read_planned(self._checkpoint, batch, topic).watermark_ms, late

    def _clock(self, clock: EventClock, fates: Fates) -> EventClock:
        highest = max([self._highest_ms, *fates.newest_ms.values()])
        told = {"highest_ms": highest, "newest_ms": fates.newest_ms, "forgotten_ms": self._forgotten_ms}
        return clock.model_copy(update=told)

    def _results(self, out: DataFrame, count: int, clock: EventClock, fates: Fates) -> Results:
        """A window that began before the state did keeps the value that it has (P6.3)."""
        rows = out.withColumn("_topic", F.lit(self._topic.name))
        if self._forgotten_ms is not None:
            rows = rows.where(F.col(WINDOW_START) > F.lit(datetime.fromtimestamp(self._forgotten_ms / 1000, UTC)))
            count = rows.count()
        return Results(rows, count, fates.lines, clock.model_copy(update={"results": count}))
