"""Delivers one batch to every sink, by the rules of P3. Everything it needs was made by take-over.

P3.1 the range, from the offset log; P3.2 each record has its fate (`rows_of`); then for each sink, by name: the rows that it
lacks are written and counted in one pass, but nobody sees them yet; P3.3 bad records are quarantined, before the first commit;
P3.4 rows, ledger and the moved tidemark (P3.5) are committed at once, and the topic is the same before and after.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.checkpoints.spark_log import BatchRange, read_range
from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from include.tidemarks.note import LedgerLine, Tidemark
from include.topics.topic import Topic
from jobs.counting import Bounds, Counting, Refusal, check_rows, refused_by
from jobs.exits import classify
from jobs.failpoints import Failpoint, reach
from jobs.kept_rows import kept
from jobs.poison import PoisonSearch
from jobs.sink import NOTHING, ConflictLost, OnceMore, Sink
from jobs.take_over import TakenStream
from jobs.topic_watch import TopicWatch
from jobs.transform import RAW

TURNS = 5  # of one batch at one sink, when others commit to its table at the same time


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
        self.check_topic = TopicWatch(topic, taken.topic_id).check
        self._checkpoint = taken.checkpoint
        self._quarantine = taken.quarantine
        self._names = tuple(sorted(taken.sinks))
        self._sinks = [taken.sinks[name] for name in self._names]
        self._poison = PoisonSearch(taken.quarantine.table.spark, stream, topic.address)

    def deliver(self, rows: DataFrame, batch: int) -> Delivered:
        return self.deliver_range(rows, batch, read_range(self._checkpoint, batch, self._stream.spec.source.topic))  # P3.1

    def deliver_range(self, rows: DataFrame, number: int, span: BatchRange) -> Delivered:
        """`rows` are `rows_of` the records of `span` (P3.2), all of them and no others."""
        behind = [sink for sink in self._sinks if not sink.tidemark.covers(span.ends)]
        for sink in behind:
            self._refuse_above(sink, span)
        with _kept_for(behind, rows) as slim:
            batch = _Batch(number, span, rows, slim, self._lowest(span), tuple(_refusals(behind, span)))
            ledgers = [self._until_committed(sink, batch, is_first=sink is behind[0]) for sink in behind]
        return _summary(number, span, ledgers)

    def _lowest(self, span: BatchRange) -> Bounds:
        return Bounds.of(span, {number: min(sink.tidemark.next_offset(number) for sink in self._sinks) for number in span.ends})

    def _until_committed(self, sink: Sink, batch: "_Batch", *, is_first: bool) -> list[LedgerLine]:
        """Who maintains the table may commit between our look and our commit, or the sink wants the batch in another form: then
        all of it is made once more, upon what stands there now (P3.7: the tidemark is read again)."""
        with _named(sink):
            for _ in range(TURNS - 1):
                try:
                    return self._deliver_to(sink, batch, is_first=is_first)
                except ConflictLost:
                    why = "another commit came between"
                except OnceMore as wish:
                    why = f"it takes record by record, for {wish}"
                print(f"Sink {sink.sink}: {why}; batch {batch.number} is made once more", flush=True)
            return self._deliver_to(sink, batch, is_first=is_first)

    def _deliver_to(self, sink: Sink, batch: "_Batch", *, is_first: bool) -> list[LedgerLine]:
        open_batch = sink.open_batch()
        moved = sink.tidemark.raised_to(sink.generation.number, batch.number, batch.span.ends, self._names)  # P3.5
        bounds = Bounds.of(batch.span, sink.tidemark.offsets)
        refusals = (Refusal(None, f"{batch.lowest.of_records()} AND _bad"), *batch.refusals) if is_first else ()
        counting = Counting(bounds, batch.lowest, sink.refuses, refusals)
        reach(Failpoint.BEFORE_WRITE)
        try:
            written = open_batch.write(_as_rows(counting.drop_and_count(batch.rows), sink, moved))
        except PySparkException as error:
            if classify(error) is not ExitClass.POISON:
                raise
            raise self._poison.find(bounds.ranges, error) from error
        ledger = counting.ledger()
        check_rows(written, sum(line.delivered for line in ledger), sink.sink)
        reach(Failpoint.IN_WRITE)
        self.check_topic()
        if refused := counting.refused:  # P3.3
            self._quarantine.insert(batch.records, batch.lowest, moved, refused, counting.read_above_lowest)
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


@dataclass(frozen=True)
class _Batch:
    """What every sink is given: the records with their raw parts, and without."""

    number: int
    span: BatchRange
    records: DataFrame
    rows: DataFrame
    lowest: Bounds  # what the hindmost sink lacks
    refusals: tuple[Refusal, ...]


def _refusals(sinks: list[Sink], span: BatchRange) -> Iterator[Refusal]:
    for sink in sinks:
        if sink.refuses != NOTHING:
            yield refused_by(Bounds.of(span, sink.tidemark.offsets), sink.sink, sink.refuses, sink.why_it_refuses)


def _kept_for(sinks: list[Sink], rows: DataFrame) -> AbstractContextManager[DataFrame]:
    """With several sinks the rows are made once: each of them gets the same."""
    slim = rows.drop(*RAW)
    return kept(slim) if len(sinks) > 1 else nullcontext(slim)


@contextmanager
def _named(sink: Sink) -> Iterator[None]:
    """What Spark or a disk says does not tell which of several sinks it was about."""
    try:
        yield
    except Exception as error:
        error.add_note(f"It was on its way to sink {sink.stream}.{sink.sink}.")
        raise


def _as_rows(delivered: DataFrame, sink: Sink, moved: Tidemark) -> DataFrame:
    ours = {
        "_topic_epoch": F.lit(moved.epoch).cast("int"),
        "_generation": F.lit(moved.generation).cast("bigint"),
        # Not a number that is written into generated code, see Bounds.of_records.
        "_batch_id": F.expr(f"get(array_repeat({moved.batch:d}L, {max(moved.offsets) + 1:d}), _partition)"),
    }
    return delivered.withColumns({**ours, **sink.derived}).select(*sink.columns)


def _summary(batch: int, span: BatchRange, ledgers: list[list[LedgerLine]]) -> Delivered:
    """Of the sink that lacked most."""
    fullest = max(ledgers, key=lambda lines: sum(line.read for line in lines), default=[])
    read, delivered, quarantined = (sum(getattr(line, what) for line in fullest) for what in ("read", "delivered", "quarantined"))
    return Delivered(batch, read, delivered, quarantined, dict(span.ends))
