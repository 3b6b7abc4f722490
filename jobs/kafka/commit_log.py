"""The log of a Kafka sink's commits, in the hands of a driver: it begins as the writer, knows what was told, tells more, and sees
whether anybody else did (P5)."""

from include.contract.connections import read_connection
from include.contract.identity import tidemarks_topic
from include.contract.places import OutputTopic
from include.control.generations import Generation
from include.tidemarks.kafka_log import log_in
from include.tidemarks.kafka_records import LOG_PARTITION, LogRecord
from include.tidemarks.note import Note
from include.tidemarks.sink_state import SinkState, read_sink
from include.topics.committed import settled_ends
from include.topics.topic import admin_of
from jobs.kafka.log_writer import LogWriter
from jobs.kafka.slot_attempt import HANGING_SECONDS
from jobs.sink import SinkWentBack, fenced


class CommitLog:
    def __init__(self, place: OutputTopic, stream: str, sink: str, generation: Generation, timeout_ms: int) -> None:
        self.told = LogRecord(version=-1, note="")  # the newest
        self._place = place
        self._stream = stream
        self._sink = sink
        self._generation = generation
        self._timeout_ms = timeout_ms
        self._address = read_connection(place.connection).address
        self._admin = admin_of(self._address)
        self._log = log_in(place)
        self._topic_id: str | None = None
        self._writer: LogWriter | None = None

    @property
    def end(self) -> int:
        """In offsets, as this driver left it."""
        return self._writing.end

    def state(self) -> SinkState:
        """A commit is answered before readers see it: what this driver has committed is waited for."""
        if self._writer is not None:
            self.settled([LOG_PARTITION])
        return read_sink(self._place, self._stream, self._sink)

    def begin(self) -> SinkState:
        """Ends whoever wrote before; what stands there then was all that it wrote."""
        self._writer = LogWriter(self._address, self._stream, self._sink, self._place.topic, self._timeout_ms)
        self._writer.see(self.settled([LOG_PARTITION])[LOG_PARTITION])
        self._topic_id = self._log.topic_id()
        return self.state()

    def know(self, version: int | None, first: LogRecord) -> int:
        """What its newest record says beside the note; of a new log, what `first` says. Returns how many slots there were."""
        told = {} if version is None else dict(self._log.commit(version).parameters)
        if told and told["marks"] != first.marks:
            raise SinkWentBack(
                f"{tidemarks_topic(self._place.topic)} has {first.marks} partitions of marks, but was made with {told['marks']}: "
                "which partition has whose mark is not known any more.",
                state="Nothing was written.",
                next_step="Find out who changed or made anew that topic, and bring it back.",
            )
        before = int(told.pop("slots", first.slots))
        known = {**told, "slots": max(first.slots, before), "version": -1 if version is None else version}
        self.told = first.model_copy(update=known)
        return before

    def append(self, note: Note, **ends: dict[int, int]) -> None:
        told = {"version": self.told.version + 1, "note": note.to_json(), "records": sum(line.delivered for line in note.ledger)}
        record = self.told.model_copy(update={**told, **ends})
        self._writing.append(record)
        self.told = record

    def check_that_nobody_wrote(self) -> None:
        if self._log.topic_id() != self._topic_id:
            raise self._went_back(None)
        if self.settled([LOG_PARTITION])[LOG_PARTITION] != self.end:
            raise self.taken_or_gone(self.state())

    def taken_or_gone(self, state: SinkState) -> Exception:
        """By whom, if it is not as this driver left it."""
        if state.generation >= self._generation.number and state.owner != self._generation.owner:
            return fenced(self._stream, self._sink, self._generation.number, state.generation)
        return self._went_back(state.version)

    def settled(self, partitions: list[int]) -> dict[int, int]:
        patience = self._timeout_ms / 1000 + HANGING_SECONDS
        return settled_ends(self._admin, tidemarks_topic(self._place.topic), partitions, patience)

    def _went_back(self, version: int | None) -> SinkWentBack:
        there = "is gone" if version is None else f"is at commit {version}"
        return SinkWentBack(
            f"The log of {self._place} {there}, but was at commit {self.told.version}.",
            state="This driver wrote nothing since.",
            next_step=f"Find out who changed {tidemarks_topic(self._place.topic)}; then start the stream again.",
            sink=self._sink,
        )

    @property
    def _writing(self) -> LogWriter:
        if self._writer is None:
            raise ValueError(f"{self._sink} is not fenced yet")
        return self._writer
