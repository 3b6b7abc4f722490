"""Delivers one batch to every sink, by the rules of P3. Everything it needs was made by take-over.

P3.1 the range, from the offset log; P3.2 each record has its fate (`rows_of`); for each sink the rows that it lacks are written
and counted in one pass, but nobody sees them yet; P3.3 bad records are quarantined, before the first commit; P3.4 then for each
sink, by name: rows, ledger and the moved tidemark (P3.5) are committed at once, and the topic is the same before and after.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from include.checkpoints.spark_log import BatchRange, read_range
from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from include.tidemarks.note import EventClock, LedgerLine, Tidemark
from include.topics.topic import Topic
from jobs.batch_content import Content, Records
from jobs.counting import Bounds, CountedBefore, Counting, Refusal, check_rows
from jobs.exits import classify
from jobs.failpoints import Failpoint, reach
from jobs.kept_rows import kept
from jobs.poison import PoisonSearch
from jobs.sink import ConflictLost, OnceMore, OpenBatch, PutsIn, Sink
from jobs.take_over import TakenStream
from jobs.topic_watch import TopicWatch
from jobs.transform import RAW

TURNS = 5  # of one batch at one sink, when others commit to its table at the same time


class StartAboveTidemark(StreamFailure):
    """A batch begins above what a sink holds: the records between would be lost. Only a wrong checkpoint leads here."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


class StraddlesTidemark(StreamFailure):
    """A stateful batch that a sink has in part. Only a wrong checkpoint leads here."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


@dataclass(frozen=True)
class Delivered:
    batch: int
    read: int
    delivered: int
    quarantined: int
    outputs: int
    ends: dict[int, int]
    again: int = 0  # offsets that every sink has already: read for a state alone


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

    def deliver_range(self, rows: DataFrame, number: int, span: BatchRange, content: Content | None = None) -> Delivered:
        """`rows` are `rows_of` the records of `span` (P3.2), all of them and no others; `content`: what sinks get of a stateful
        stream, or else these."""
        behind = self.behind(span, content.clock if content else None)
        with nullcontext(content) if content else _kept_for(behind, rows) as given, ExitStack() as held:
            refusals = tuple(refusal for sink in behind for refusal in given.refusals(sink, span))
            batch = _Batch(number, span, given, self._lowest(span), refusals, held)
            prepared = self._prepare_all(behind, batch)
            for one in prepared:
                if refused := one.counting.refused:  # P3.3
                    self._quarantine.insert(rows, batch.lowest, one.moved, refused, one.counting.read_above_lowest)
            ledgers = [self._until_committed(one, batch) for one in prepared]
        return _summary(number, span, ledgers)

    def behind(self, span: BatchRange, clock: EventClock | None) -> list[Sink]:
        """Those that lack something of the batch: records, or that it closes windows (P6.1). Refuses what fits none."""
        behind = [sink for sink in self._sinks if not sink.tidemark.covers(span.ends, clock)]
        for sink in behind:
            self._refuse_above(sink, span)
            if clock is not None:
                self._refuse_straddling(sink, span)
        return behind

    def _lowest(self, span: BatchRange) -> Bounds:
        return Bounds.of(span, {number: min(sink.tidemark.next_offset(number) for sink in self._sinks) for number in span.ends})

    def _prepare_all(self, sinks: list[Sink], batch: "_Batch") -> list["_Prepared"]:
        """Everything but the commits. What a database puts in takes it a while: it is given its rows first, and Spark writes the
        others meanwhile. Only one of several databases: what the next puts in may need what this one commits (foreign keys)."""
        opened = [self._open(sink, batch, counts_refusals=sink is sinks[0]) for sink in sinks]
        early = next((one for one in opened if isinstance(one.open_batch, PutsIn)), None)
        if early is not None:
            self._write(early, batch)
            early.begin()
        for one in opened:
            if one is not early:
                self._write(one, batch)
        return [self._finished(one, batch) for one in opened]

    def _finished(self, one: "_Prepared", batch: "_Batch") -> "_Prepared":
        try:
            one.finish()
        except OnceMore as wish:
            return self._once_more(one, wish, batch)
        return one

    def _once_more(self, one: "_Prepared", why: ConflictLost | OnceMore, batch: "_Batch") -> "_Prepared":
        """Who maintains the table has committed between our look and our commit, or the sink wants the batch in another form: all
        of it is made upon what stands there now (P3.7: the tidemark is read again)."""
        if one.turn == TURNS:
            raise why
        told = f"it takes record by record, for {why}" if isinstance(why, OnceMore) else "another commit came between"
        print(f"Sink {one.sink.sink}: {told}; batch {batch.number} is made once more", flush=True)
        again = self._open(one.sink, batch, counts_refusals=one.counts_refusals, turn=one.turn + 1)
        self._write(again, batch)
        again.begin()
        return self._finished(again, batch)

    def _open(self, sink: Sink, batch: "_Batch", *, counts_refusals: bool, turn: int = 1) -> "_Prepared":
        with _named(sink):
            open_batch = sink.open_batch()
        if isinstance(open_batch, PutsIn):
            batch.held.callback(open_batch.give_up)
        moved = sink.tidemark.raised_to(  # P3.5
            sink.generation.number, batch.number, batch.span.ends, self._names, batch.content.clock
        )
        refusals = (Refusal(None, f"{batch.lowest.of_records()} AND _bad"), *batch.refusals) if counts_refusals else ()
        counting = batch.content.counted(sink, batch.span, batch.lowest, refusals)
        return _Prepared(sink, open_batch, moved, counting, counts_refusals, turn)

    def _write(self, one: "_Prepared", batch: "_Batch") -> None:
        with _named(one.sink):
            reach(Failpoint.BEFORE_WRITE)
            try:
                written = one.open_batch.write(_rows_for(one, batch))
            except PySparkException as error:
                if classify(error) is not ExitClass.POISON:
                    raise
                raise self._poison.find(one.counting.bounds.ranges, error) from error
            check_rows(written, one.counting.expected, one.sink.sink)
            reach(Failpoint.IN_WRITE)
            self.check_topic()

    def _until_committed(self, one: "_Prepared", batch: "_Batch") -> list[LedgerLine]:
        while True:
            try:
                return self._commit(one)
            except (ConflictLost, OnceMore) as why:
                one = self._once_more(one, why, batch)

    def _commit(self, one: "_Prepared") -> list[LedgerLine]:
        with _named(one.sink):
            reach(Failpoint.BEFORE_COMMIT)
            self.check_topic()
            booked = one.open_batch.commit(one.moved, one.counting.ledger(), self._quarantine.newest)  # P3.4
            reach(Failpoint.AFTER_COMMIT)
            self.check_topic()
            return booked

    def _refuse_straddling(self, sink: Sink, span: BatchRange) -> None:
        """A state has all of a batch or nothing of it (P6.2)."""
        if sink.tidemark.covers(span.ends):
            return
        for number, start in span.starts.items():
            if start != (held := sink.tidemark.next_offset(number)):
                raise StraddlesTidemark(
                    f"The batch begins partition {number} at {start:,} and ends it at {span.ends[number]:,}, but sink "
                    f"{sink.sink} holds it up to {held:,}: its results would hold records twice, or not at all.",
                    state="Nothing was written.",
                    partition=number,
                    offset=held,
                )

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
    """What every sink is given."""

    number: int
    span: BatchRange
    content: Content
    lowest: Bounds  # what the hindmost sink lacks
    refusals: tuple[Refusal, ...]
    held: ExitStack  # what is to be given up at the end, if it was not committed


@dataclass(frozen=True)
class _Prepared:
    """A batch at one sink: everything is done but the commit."""

    sink: Sink
    open_batch: OpenBatch
    moved: Tidemark
    counting: Counting | CountedBefore
    counts_refusals: bool
    turn: int

    def begin(self) -> None:
        if isinstance(self.open_batch, PutsIn):
            self.open_batch.begin(self.moved)

    def finish(self) -> None:
        if isinstance(self.open_batch, PutsIn):
            with _named(self.sink):
                self.open_batch.finish()


@contextmanager
def _kept_for(sinks: list[Sink], rows: DataFrame) -> Iterator[Content]:
    """With several sinks the rows are made once: each of them gets the same."""
    slim = rows.drop(*RAW)
    with kept(slim) if len(sinks) > 1 else nullcontext(slim) as there:
        yield Records(there)


@contextmanager
def _named(sink: Sink) -> Iterator[None]:
    """What Spark or a disk says does not tell which of several sinks it was about."""
    try:
        yield
    except Exception as error:
        error.add_note(f"It was on its way to sink {sink.stream}.{sink.sink}.")
        raise


def _rows_for(one: _Prepared, batch: _Batch) -> DataFrame:
    rows = one.counting.to_write().withColumns(batch.content.own_columns(one.moved))
    return rows.withColumns(one.sink.derived).select(*one.sink.columns)


def _summary(batch: int, span: BatchRange, ledgers: list[list[LedgerLine]]) -> Delivered:
    """Of the sink that lacked most."""
    fullest = max(ledgers, key=lambda lines: sum(line.read for line in lines), default=[])
    told = ("read", "delivered", "quarantined", "outputs")
    read, delivered, quarantined, outputs = (sum(getattr(line, what) for line in fullest) for what in told)
    return Delivered(batch, read, delivered, quarantined, outputs, dict(span.ends))
