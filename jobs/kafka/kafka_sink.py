"""A topic that only the newest generation of its stream writes: fence, adoption, and the log of its commits (P1.2, P5).

Fence: 1. begin with the log's transactional id, and read the log to its end; 2. write the fence, unless a newer one stands there;
3. begin with the id of every slot that ever was, which ends the transactions of older drivers; 4. read the marks, and tell what
the driver before had committed but not told.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Column
from pyspark.sql.types import StructType

from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.identity import rejects_topic, tidemarks_topic, transactional_id
from include.contract.places import OutputTopic
from include.contract.stream_spec import KafkaOutput, Source
from include.control.generations import Generation
from include.tidemarks.kafka_log import log_in
from include.tidemarks.kafka_records import FIRST_MARKS_PARTITION, LOG_PARTITION, LogRecord, read_marks
from include.tidemarks.kafka_untold import untold
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark
from include.tidemarks.sink_state import SinkState, read_sink
from include.topics.committed import settled_ends
from include.topics.topic import Topic, admin_of
from jobs.kafka.executor_failures import named, unless_fenced
from jobs.kafka.log_writer import LogWriter
from jobs.kafka.open_batch import OpenKafkaBatch
from jobs.kafka.outputs import check_outputs
from jobs.kafka.producers import ProducerFenced, begin
from jobs.kafka.slot_attempt import HANGING_SECONDS
from jobs.kafka.slot_plan import Target
from jobs.kafka.topics_there import OutputTopics
from jobs.sink import NOTHING, SinkWentBack, check_that_it_was_us, fenced, make_note

AT_ONCE = 8  # slots of which the old transactions are ended at the same time


class KafkaTopicSink:
    refuses, why_it_refuses = NOTHING, ""  # how large an output is, is known only where it is made

    def __init__(
        self,
        place: OutputTopic,
        stream: str,
        sink: str,
        source: Topic,
        settings: KafkaOutput,
        shape: StructType,
        generation: Generation,
        spec_hash: str,
    ) -> None:
        self.place = place
        self.stream = stream
        self.sink = sink
        self.generation = generation
        self.spec_hash = spec_hash
        self.settings = settings
        self.shape = shape
        self.derived: dict[str, Column] = {}
        self.address = read_connection(place.connection).address
        self.marks_ends: dict[int, int] = {}
        self._source = source
        self._topics = OutputTopics(self.address, sink, settings)
        self._output = Topic(self.address, place.topic)
        self._rejects = Topic(self.address, rejects_topic(place.topic))
        self._admin = admin_of(self.address)
        self._log = log_in(place)
        self._log_id: str | None = None  # of the topic that it is
        self._is_fenced = False
        self._writer: LogWriter | None = None
        self._told = LogRecord(version=-1, note="")
        self._newest: Note | None = None

    @property
    def tidemark(self) -> Tidemark:
        if self._newest is None or self._newest.tidemark is None:
            raise ValueError(f"{self.sink} is not adopted yet")
        return self._newest.tidemark

    @property
    def columns(self) -> list[str]:
        own = [name for name in self.shape.names if not name.startswith("_")]
        return ["_partition", "_offset", "_kafka_timestamp", *own]

    @property
    def log_end(self) -> int:
        return self._writing.end

    @property
    def slots(self) -> int:
        return min(self.settings.slots, self.marks)

    @property
    def marks(self) -> int:
        return self._told.marks

    def target(self) -> Target:
        """As the broker has it now: somebody may change the topic while the stream runs."""
        output, settings = self._topics.output(), self.settings
        return Target(
            address=self.address,
            stream=self.stream,
            sink=self.sink,
            source=self._source.name,
            topic=self.place.topic,
            partitions=output.partitions,
            partition=settings.partition,
            compression=settings.compression,
            largest_bytes=output.largest_bytes,
            timeout_ms=self._timeout_ms,
            within_seconds=settings.slot_within.total_seconds(),
        )

    def state(self) -> SinkState:
        """A commit is answered before readers see it: what this driver has committed is waited for."""
        with named(self):
            if self._writer is not None:
                self._settled([LOG_PARTITION])
            return read_sink(self.place, self.stream, self.sink)

    def fence(self) -> None:
        with unless_fenced(self):
            self._topics.make(len(self._source.state().earliest), load_environment().kafka.durable_topics)
            self._take_log()  # 1, 2
            self._is_fenced = True
            self._end_slots()  # 3
            self._tell_untold()  # 4

    def _take_log(self) -> None:
        while True:
            if (there := self.state()).generation > self.generation.number:  # to begin would end the writer of a newer driver
                return check_that_it_was_us(self.stream, self.sink, self.generation, there.generation, there.owner)
            self._writer = LogWriter(self.address, self.stream, self.sink, self.place.topic, self._timeout_ms)
            self._writer.see(self._settled([LOG_PARTITION])[LOG_PARTITION])
            self._log_id = self._log.topic_id()
            state = self.state()
            self._know(state.version)
            if state.generation >= self.generation.number:
                return check_that_it_was_us(self.stream, self.sink, self.generation, state.generation, state.owner)
            try:
                return self._append(self._note(Kind.FENCE, first=state.note is None))
            except ProducerFenced:
                continue  # another start began at the same time: look again

    def _know(self, version: int | None) -> None:
        """What the newest record of the log says beside its note; of a new log, what the topics say."""
        told = {} if version is None else dict(self._log.commit(version).parameters)
        marks = self._topics.marks()
        if told and told["marks"] != marks:
            raise SinkWentBack(
                f"{tidemarks_topic(self.place.topic)} has {marks} partitions of marks, but was made with {told['marks']}: which "
                "partition has whose mark is not known any more.",
                state="Nothing was written.",
                next_step="Find out who changed or made anew that topic, and bring it back.",
            )
        before = told.pop("slots", self.settings.slots)
        slots = max(self.settings.slots, before)
        first = {"marks": marks, "output_id": self._output.topic_id()}
        self._told = LogRecord(version=-1 if version is None else version, note="", slots=slots, **{**first, **told})
        self._tell_of_slots(before)
        self._check_output()

    def _tell_of_slots(self, before: int) -> None:
        """`before`: the most there ever were."""
        if before != self.settings.slots:
            print(
                f"Sink {self.sink} has {self.slots} slots, and had up to {before}: what any of them left open is ended first",
                flush=True,
            )
        if self.slots < self.settings.slots:
            made = f"{tidemarks_topic(self.place.topic)} was made with {self.marks} partitions of marks, which never changes"
            print(f"Sink {self.sink} has {self.slots} slots and not {self.settings.slots}: {made}", flush=True)

    def _end_slots(self) -> None:
        ids = [transactional_id(self.stream, self.sink, slot) for slot in range(self._told.slots)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda one: begin(self.address, one, self.place.topic, self._timeout_ms), ids))

    def _tell_untold(self) -> None:
        self.marks_ends = self._settled(list(range(FIRST_MARKS_PARTITION, FIRST_MARKS_PARTITION + self.marks)))
        marks = read_marks(self.address, self.place.topic, {number: (0, end) for number, end in self.marks_ends.items()})
        if note := untold(marks.values(), self.state().tidemark):
            self._append(note)

    def adopt(
        self,
        state: SinkState,
        tidemark: Tidemark,
        *,
        pinned: bool,
        losses: Iterable[LedgerLine] = (),
        quarantine: tuple[int, int] | None = None,
    ) -> None:
        if state.version != self._told.version:
            raise self._taken_or_gone(state)
        made_by = state.note.made_by if state.note else None
        parts = {"builds_on": state.tidemark, "made_by": made_by, "ledger": tuple(losses), "quarantine": quarantine}
        self.tell(self._note(Kind.ADOPT, tidemark=tidemark, pinned=pinned, **parts))

    def open_batch(self) -> OpenKafkaBatch:
        with named(self):
            if self._log.topic_id() != self._log_id:
                raise self._went_back(None)
            if self._settled([LOG_PARTITION])[LOG_PARTITION] != self.log_end:
                raise self._taken_or_gone(self.state())
            self._check_output()
        return OpenKafkaBatch(self)

    def batch_note(self, tidemark: Tidemark, quarantine: tuple[int, int] | None) -> Note:
        """Without its ledger, of which each slot writes its lines."""
        parts = {"builds_on": self.tidemark, "made_by": self.spec_hash, "quarantine": quarantine}
        return self._note(Kind.BATCH, tidemark=tidemark, **parts)

    def tell(self, note: Note) -> None:
        """What the slots have committed already, or what is adopted."""
        with unless_fenced(self):
            self._append(note)
        self._newest = note

    def _append(self, note: Note) -> None:
        """A fence tells nothing of the outputs: behind those that are told there may be some that are not told yet."""
        told = {"version": self._told.version + 1, "note": note.to_json(), "records": sum(line.delivered for line in note.ledger)}
        if note.kind is not Kind.FENCE:
            told |= {"output_ends": self._output.state().latest, "rejects_ends": self._rejects.state().latest}
        record = self._told.model_copy(update=told)
        self._writing.append(record)
        self._told = record

    def _check_output(self) -> None:
        check_same_output(self.place, self.sink, self._output, self._told.output_id)

    def taken_over(self) -> Exception | None:
        """By a newer generation, as the log says, and nothing else (P5). Before our own fence an older one stands there."""
        state = self.state()
        if state.owner == self.generation.owner or (state.generation < self.generation.number and not self._is_fenced):
            return None
        return self._taken_or_gone(state)

    def _taken_or_gone(self, state: SinkState) -> Exception:
        if state.generation >= self.generation.number and state.owner != self.generation.owner:
            return fenced(self.stream, self.sink, self.generation.number, state.generation)
        return self._went_back(state.version)

    def _went_back(self, version: int | None) -> SinkWentBack:
        there = "is gone" if version is None else f"is at commit {version}"
        return SinkWentBack(
            f"The log of {self.place} {there}, but was at commit {self._told.version}.",
            state="This driver wrote nothing since.",
            next_step=f"Find out who changed {tidemarks_topic(self.place.topic)}; then start the stream again.",
            sink=self.sink,
        )

    def _settled(self, partitions: list[int]) -> dict[int, int]:
        patience = self._timeout_ms / 1000 + HANGING_SECONDS
        return settled_ends(self._admin, tidemarks_topic(self.place.topic), partitions, patience)

    def _note(self, kind: Kind, **more: object) -> Note:
        return make_note(self, kind, self._told.version, **more)

    @property
    def _timeout_ms(self) -> int:
        return int(self.settings.transaction_timeout.total_seconds() * 1000)

    @property
    def _writing(self) -> LogWriter:
        if self._writer is None:
            raise ValueError(f"{self.sink} is not fenced yet")
        return self._writer


def check_topics(place: OutputTopic, sink: str, settings: KafkaOutput, shape: StructType, source: Source) -> None:
    """Before anything is touched: a start that will be refused must not fence a driver that runs well."""
    check_outputs(settings, sink, shape)
    address, log = read_connection(place.connection).address, log_in(place)
    if (newest := log.newest_version()) is not None:
        check_same_output(place, sink, Topic(address, place.topic), log.commit(newest).parameters["output_id"])
    must_be_durable = load_environment().kafka.durable_topics
    OutputTopics(address, sink, settings).check(must_be_durable)
    if must_be_durable:  # a record that Kafka takes back was delivered all the same
        OutputTopics(read_connection(source.connection).address, sink, settings).check_durable(source.topic)


def check_same_output(place: OutputTopic, sink: str, output: Topic, written: str) -> None:
    """A topic that was deleted took with it what was delivered: it is not made a second time, nor is another written."""
    there = output.lasting_id()
    if there == written:
        return
    happened = f"is another topic than the one that was written: its id is {there}, was {written}" if there else "is gone"
    raise SinkWentBack(
        f"{place} {happened}.",
        state="What was delivered is gone with the topic that was deleted; nothing was written since.",
        next_step="Give the sink another topic and `from: earliest`: it gets all that Kafka still has.",
        sink=sink,
    )
