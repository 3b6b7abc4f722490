"""A topic that only the newest generation of its stream writes: fence, adoption, and what each batch is told with (P1.2, P5).

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
from include.contract.stream_spec import KafkaOutput
from include.control.generations import Generation
from include.tidemarks.kafka_records import FIRST_MARKS_PARTITION, LogRecord, read_marks
from include.tidemarks.kafka_untold import untold
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark
from include.tidemarks.sink_state import SinkState
from include.topics.topic import Topic
from jobs.kafka.commit_log import CommitLog
from jobs.kafka.executor_failures import named, unless_fenced
from jobs.kafka.open_batch import OpenKafkaBatch
from jobs.kafka.producers import ProducerFenced, begin
from jobs.kafka.slot_plan import Target
from jobs.kafka.topic_checks import check_same_output
from jobs.kafka.topics_there import OutputTopics
from jobs.sink import NOTHING, check_that_it_was_us, make_note

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
        *,
        sorts_rows: bool = False,
    ) -> None:
        """`sorts_rows`: of a stateful stream, whose rows lose the order of the source in a join."""
        self.sorts_rows = sorts_rows
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
        self._log = CommitLog(place, stream, sink, generation, self._timeout_ms)
        self._is_fenced = False
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
        return self._log.end

    @property
    def slots(self) -> int:
        return min(self.settings.slots, self.marks)

    @property
    def marks(self) -> int:
        return self._log.told.marks

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
        with named(self):
            return self._log.state()

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
            state = self._log.begin()
            self._know(state.version)
            if state.generation >= self.generation.number:
                return check_that_it_was_us(self.stream, self.sink, self.generation, state.generation, state.owner)
            try:
                return self._append(self._note(Kind.FENCE, first=state.note is None))
            except ProducerFenced:
                continue  # another start began at the same time: look again

    def _know(self, version: int | None) -> None:
        new = LogRecord(
            version=-1, note="", slots=self.settings.slots, marks=self._topics.marks(), output_id=self._output.topic_id()
        )
        self._tell_of_slots(self._log.know(version, new))
        self._check_output()

    def _tell_of_slots(self, before: int) -> None:
        """`before`: the most there ever were."""
        if before != self.settings.slots:
            had = f"and had up to {before}: what any of them left open is ended first"
            print(f"Sink {self.sink} has {self.slots} slots, {had}", flush=True)
        if self.slots < self.settings.slots:
            made = f"{tidemarks_topic(self.place.topic)} was made with {self.marks} partitions of marks, which never changes"
            print(f"Sink {self.sink} has {self.slots} slots and not {self.settings.slots}: {made}", flush=True)

    def _end_slots(self) -> None:
        ids = [transactional_id(self.stream, self.sink, slot) for slot in range(self._log.told.slots)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda one: begin(self.address, one, self.place.topic, self._timeout_ms), ids))

    def _tell_untold(self) -> None:
        self.marks_ends = self._log.settled(list(range(FIRST_MARKS_PARTITION, FIRST_MARKS_PARTITION + self.marks)))
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
        if state.version != self._log.told.version:
            raise self._log.taken_or_gone(state)
        made_by = state.note.made_by if state.note else None
        parts = {"builds_on": state.tidemark, "made_by": made_by, "ledger": tuple(losses), "quarantine": quarantine}
        self.tell(self._note(Kind.ADOPT, tidemark=tidemark, pinned=pinned, **parts))

    def open_batch(self) -> OpenKafkaBatch:
        with named(self):
            self._log.check_that_nobody_wrote()
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
        if note.kind is Kind.FENCE:
            self._log.append(note)
        else:
            self._log.append(note, output_ends=self._output.state().latest, rejects_ends=self._rejects.state().latest)

    def _check_output(self) -> None:
        check_same_output(self.place, self.sink, self._output, self._log.told.output_id)

    def taken_over(self) -> Exception | None:
        """By a newer generation, as the log says, and nothing else (P5). Before our own fence an older one stands there."""
        state = self.state()
        if state.owner == self.generation.owner or (state.generation < self.generation.number and not self._is_fenced):
            return None
        return self._log.taken_or_gone(state)

    def _note(self, kind: Kind, **more: object) -> Note:
        return make_note(self, kind, self._log.told.version, **more)

    @property
    def _timeout_ms(self) -> int:
        return int(self.settings.transaction_timeout.total_seconds() * 1000)
