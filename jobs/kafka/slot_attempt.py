"""One attempt at one slot of a batch, on an executor or, where no record is left to send, on the driver (P5).

1. begin: whatever was open under the slot's id is aborted; 2. read the log of commits and the marks, to ends at which no
transaction is open; 3. stop if a newer generation stands there, or if an earlier attempt is through; 4. send outputs and rejects;
5. send the marks; 6. commit. Newest begin wins in Kafka, not newest generation: hence 2 and 3, each time.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pyspark import TaskContext

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import tidemarks_topic, transactional_id
from include.tidemarks.kafka_records import LOG_PARTITION, Mark, newest_note, read_marks
from include.tidemarks.note import LedgerLine
from include.topics.committed import settled_ends
from include.topics.topic import admin_of
from jobs.failpoints import Failpoint, reach
from jobs.kafka.producers import SECONDS, begin, meaning, patiently, produce
from jobs.kafka.sending import Sending
from jobs.kafka.slot_plan import Outcome, Place, SlotPlan, SlotResult

HANGING_SECONDS = 30  # beyond the transaction timeout, after which the broker itself ends what hangs
FLUSH_SECONDS = 0.2  # between two looks whether the broker has refused something
NEXT_STEP = "Find out who wrote to the tidemarks topic beside this stream; then start the stream again."
LARGEST_MARK_BYTES = 1_000_000  # the client's own limit holds for the marks too
MARKER = 1  # the offset that the end of a transaction takes in each partition


class SlotBroken(StreamFailure):
    """The log or the marks say what cannot be: nothing is sent."""

    exit_class = ExitClass.SINK_WENT_BACK

    def __init__(self, happened: str, *, state: str = "Nothing of this slot was sent.", **evidence: Any) -> None:
        super().__init__(happened, state=state, next_step=NEXT_STEP, **evidence)


def run_slot(plan: SlotPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow: the rows were laid out by their slot, so the task knows it before the first of them has come."""
    slot = _own_number()
    if any(line.delivered for line in plan.lines_of(slot).values()):
        yield pa.record_batch({"result": [SlotAttempt(plan, slot).run(batches).to_json()]})


def _own_number() -> int:
    context = TaskContext.get()
    if context is None:
        raise TypeError("a slot with records is sent by a task of Spark")
    return context.partitionId()


class SlotAttempt:
    def __init__(self, plan: SlotPlan, slot: int) -> None:
        self._plan = plan
        self._slot = slot
        self._lines = plan.lines_of(slot)
        self._target = plan.target
        self._id = transactional_id(plan.target.stream, plan.target.sink, slot)
        self._refused: dict[Place | None, str] = {}  # None: one of those that were sent together
        self._told = ""

    def run(self, batches: Iterable[pa.RecordBatch]) -> SlotResult:
        reach(Failpoint.BEFORE_SLOT)
        producer = self._begin()  # 1
        ends = self._ends()  # 2
        if stopped := self._stopped_by(ends):  # 3
            return stopped
        deadline = time.monotonic() + self._target.within_seconds
        with meaning(self._id, self._target.topic, producer):
            try:
                sent = self._send(producer, batches, deadline)
            except KafkaException:
                if not self._refused:  # the client takes nothing more once the broker has refused a record
                    raise
                sent = Outcome.REFUSED
            if isinstance(sent, Outcome):
                patiently(lambda: producer.abort_transaction(SECONDS))
                named = {place: why for place, why in self._refused.items() if place is not None}
                return SlotResult(self._slot, sent, refused=named, told=self._told)
            patiently(lambda: producer.commit_transaction(SECONDS))  # 6
        reach(Failpoint.AFTER_SLOT)
        return SlotResult(self._slot, Outcome.COMMITTED, tuple(sent.booked()), self._after(ends))

    def _send(self, producer: Producer, batches: Iterable[pa.RecordBatch], deadline: float) -> Sending | Outcome:
        producer.begin_transaction()
        sending = Sending(producer, self._plan, self._slot, deadline, self._heard)
        for batch in batches:
            if trouble := sending.send(batch):  # 4
                self._told = sending.first_reject
                return trouble
        reach(Failpoint.AFTER_OUTPUTS)
        for line in sending.booked():
            self._send_mark(producer, line)  # 5
        self._flush(producer)
        reach(Failpoint.AFTER_MARKS)
        if time.monotonic() > deadline:  # the broker may end it before the commit
            return Outcome.TOO_LONG
        return Outcome.REFUSED if self._refused else sending

    def _flush(self, producer: Producer) -> None:
        """What is left when the broker has refused a record is never sent: waiting for it would take the whole time."""
        deadline = time.monotonic() + SECONDS
        while producer.flush(FLUSH_SECONDS) and not self._refused and time.monotonic() < deadline:
            pass

    def _begin(self) -> Producer:
        target = self._target
        return begin(
            target.address,
            self._id,
            target.topic,
            target.timeout_ms,
            **{
                "compression.type": target.compression,
                "message.max.bytes": max(LARGEST_MARK_BYTES, target.largest_bytes),  # outputs are looked at one by one
                "linger.ms": 20,  # batches of a megabyte need some time to fill; the commit flushes the rest
                "batch.size": min(1_000_000, target.largest_bytes),
                "queue.buffering.max.messages": 500_000,
                "queue.buffering.max.kbytes": 262_144,
                **({"batch.num.messages": 1} if self._plan.one_by_one else {}),
                "partitioner": "murmur2_random",  # as Java's clients choose
                "delivery.report.only.error": True,
                "on_delivery": self._heard,
            },
        )

    def _heard(self, error: KafkaError | None, _message: Message, place: Place | None = None) -> None:
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            self._refused[place] = f"the broker refuses it: {error.str()}"

    def _ends(self) -> dict[int, int]:
        admin = admin_of(self._target.address)
        wanted = [LOG_PARTITION, *self._plan.marks_partitions_of(self._slot)]
        patience = self._target.timeout_ms / 1000 + HANGING_SECONDS
        return settled_ends(admin, tidemarks_topic(self._target.topic), wanted, patience)

    def _stopped_by(self, ends: dict[int, int]) -> SlotResult | None:
        known = {LOG_PARTITION: self._plan.log_end, **self._plan.marks_ends}
        fresh = {number: (known.get(number, 0), end) for number, end in ends.items() if end != known.get(number)}
        if LOG_PARTITION in fresh and (newest := newest_note(self._target.address, self._target.topic, fresh.pop(LOG_PARTITION))):
            if newest.owner != self._plan.note.owner:
                return SlotResult(self._slot, Outcome.FENCED, newer=newest.generation)
            raise SlotBroken(f"The log of topic {self._target.topic} has commits of this driver that it does not know of.")
        marks = read_marks(self._target.address, self._target.topic, fresh) if fresh else {}
        return self._done_before(marks, ends)

    def _done_before(self, marks: dict[int, Mark], ends: dict[int, int]) -> SlotResult | None:
        """All partitions of a slot commit together, so all of them are done or none is."""
        done = [marks[number].line for number, line in self._lines.items() if self._plan.is_done(marks.get(number), line)]
        if len(done) == len(self._lines):
            marks_ends = {number: end for number, end in ends.items() if number != LOG_PARTITION}
            return SlotResult(self._slot, Outcome.DONE_BEFORE, tuple(done), marks_ends=marks_ends)
        for number, line in self._lines.items():
            mark = marks.get(number)
            epoch = self._plan.note.tidemark.epoch if self._plan.note.tidemark else 0
            if done or (mark is not None and mark.height > (epoch, line.start)):
                raise SlotBroken(
                    f"In the marks of topic {self._target.topic}, partition {number} stands above {line.start:,}, where it ended."
                )
        return None

    def _send_mark(self, producer: Producer, line: LedgerLine) -> None:
        place = self._plan.marks_partition_of(line.partition)
        mark = self._plan.mark(line).to_json()
        produce(producer, tidemarks_topic(self._target.topic), mark, str(line.partition), place)

    def _after(self, ends: dict[int, int]) -> dict[int, int]:
        """Nobody else writes these partitions, so it is known where they end now: behind our marks and our commit."""
        marks = [self._plan.marks_partition_of(number) for number in self._lines]
        return {number: ends[number] + marks.count(number) + MARKER for number in set(marks)}
