"""A batch on its way into a topic (P5): its outputs are made and laid out by slots, then each slot is sent in a transaction.

1. outputs are made and laid out, so that the batch is counted, and bad records are quarantined, before anything is sent; 2. each
slot that has records is sent by a task, the others by the driver: theirs is only a mark to move; 3. what the broker refuses is
sent again one by one, until it is known which records it means; those go to the rejects; 4. the log is told.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import tidemarks_topic
from include.tidemarks.note import LedgerLine, Tidemark
from jobs.failpoints import Failpoint, reach
from jobs.kafka.executor_failures import STATE, SlotFailed, unless_fenced
from jobs.kafka.outputs import as_outputs
from jobs.kafka.slot_attempt import SlotAttempt, run_slot
from jobs.kafka.slot_plan import RESULT, Outcome, SlotPlan, SlotResult, booked
from jobs.kafka.topics_there import TopicUnfit
from jobs.quarantine import BUDGET_ROWS, BUDGET_SHARE
from jobs.shuffled_rows import shuffled
from jobs.sink import fenced

if TYPE_CHECKING:
    from jobs.kafka.kafka_sink import KafkaTopicSink


class TooManyRejects(StreamFailure):
    """More records have too large outputs than a stream may set aside by itself."""

    exit_class = ExitClass.POISON


class SlotTooLong(StreamFailure):
    """A slot's transaction took longer than it may (P3.9)."""

    exit_class = ExitClass.STUCK


class OpenKafkaBatch:
    def __init__(self, sink: "KafkaTopicSink") -> None:
        self._sink = sink
        self._rows: DataFrame | None = None

    def write(self, rows: DataFrame) -> int:
        seen = Observation()
        outputs = as_outputs(rows, self._sink.settings, self._sink.shape).observe(seen, F.count("*").alias("records"))
        slot = (F.col("_partition") % self._sink.marks % self._sink.slots).cast("int")
        by_slots = shuffled(outputs.repartitionById(self._sink.slots, slot))  # 1
        self._rows = by_slots.sortWithinPartitions("_partition", "_offset") if self._sink.sorts_rows else by_slots
        return int(seen.get["records"])

    def commit(
        self, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None = None
    ) -> list[LedgerLine]:
        sink = self._sink
        with unless_fenced(sink):
            plan = self._plan(tidemark, list(ledger), quarantine)
            results = self._deliver(plan)
            for result in results:
                sink.marks_ends |= result.marks_ends
            told = plan.note.model_copy(update={"ledger": tuple(booked(results))})
            reach(Failpoint.BEFORE_TELLING)
            sink.tell(told)  # 4
        return list(told.ledger)

    def _plan(self, tidemark: Tidemark, ledger: list[LedgerLine], quarantine: tuple[int, int] | None) -> SlotPlan:
        sink = self._sink
        return SlotPlan(
            target=sink.target(),
            slots=sink.slots,
            marks=sink.marks,
            note=sink.batch_note(tidemark, quarantine),
            lines={line.partition: line for line in ledger},
            log_end=sink.log_end,
            marks_ends=dict(sink.marks_ends),
            rejects_allowed=max(BUDGET_ROWS, int(sum(line.read for line in ledger) * BUDGET_SHARE)),
        )

    def _deliver(self, plan: SlotPlan) -> list[SlotResult]:
        while True:
            results = self._run(plan)
            for result in results:
                self._check(result, plan)
            if all(result.outcome is not Outcome.REFUSED for result in results):
                return results
            refused = {place: why for result in results for place, why in result.refused.items()}
            known = {**plan.known_rejects, **refused} if plan.one_by_one else {}
            if plan.one_by_one and len(known) == len(plan.known_rejects):
                raise TopicUnfit(
                    f"The broker refuses as too large what sink {self._sink.sink} tells beside its outputs.",
                    state="Nothing of that slot was committed.",
                    next_step=f"Raise max.message.bytes of {tidemarks_topic(plan.target.topic)} and of the rejects.",
                )
            plan = replace(plan, target=self._sink.target(), one_by_one=True, known_rejects=known)  # 3

    def _run(self, plan: SlotPlan) -> list[SlotResult]:  # 2
        with_range = {plan.slot_of(number) for number in plan.lines}
        with_records = {plan.slot_of(number) for number, line in plan.lines.items() if line.delivered}
        results = [SlotAttempt(plan, slot).run(()) for slot in sorted(with_range - with_records)]
        if with_records and self._rows is not None:
            tasks = self._rows.mapInArrow(partial(run_slot, plan), RESULT)
            results += [SlotResult.from_json(row["result"]) for row in tasks.collect()]
        if missing := with_range - {result.slot for result in results}:
            raise SlotFailed(
                f"Slots {sorted(missing)} of sink {self._sink.sink} gave no answer.", state=STATE, sink=self._sink.sink
            )
        return results

    def _check(self, result: SlotResult, plan: SlotPlan) -> None:
        sink = self._sink
        if result.outcome is Outcome.FENCED:
            raise fenced(sink.stream, sink.sink, sink.generation.number, result.newer)
        if result.outcome is Outcome.TOO_LONG:
            raise SlotTooLong(
                f"Slot {result.slot} of sink {sink.sink} was not through within {plan.target.within_seconds:.0f} seconds.",
                state="Nothing of it was committed.",
                next_step="After three such ends a start takes half as many records; or raise slot_within and "
                "transaction_timeout.",
            )
        if result.outcome is Outcome.TOO_MANY_REJECTS:
            raise TooManyRejects(
                f"More than {plan.rejects_allowed:,} records of slot {result.slot} are too large for topic "
                f"{plan.target.topic}: {result.told}.",
                state="Nothing of that slot was committed.",
                next_step="Raise max.message.bytes of that topic, or make the outputs smaller; then start the stream again.",
            )
