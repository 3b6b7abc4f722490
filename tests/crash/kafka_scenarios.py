"""Short histories of a Kafka sink, each with one mechanism of P5 at its heart; see `scenarios`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from include.contract.exit_class import StreamFailure
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from jobs.kafka.open_batch import OpenKafkaBatch
from jobs.kafka.slot_attempt import SlotAttempt
from jobs.kafka.slot_plan import Outcome, SlotPlan, SlotResult
from tests.outputs import OutputStream
from tests.streams import at, crash, once


def a_task_is_tried_again_after_its_commit(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """It begins after the first attempt has committed, so it is the newest producer; only the marks tell it to write nothing."""
    stream = OutputStream(stack, folder)
    stream.send(90)
    deliver = OpenKafkaBatch._run
    again: list[SlotResult] = []

    def deliver_twice(batch: OpenKafkaBatch, plan: SlotPlan) -> list[SlotResult]:
        done = deliver(batch, plan)
        again.extend(deliver(batch, plan))
        return done

    OpenKafkaBatch._run = deliver_twice
    try:
        stream.run(spark)
    finally:
        OpenKafkaBatch._run = deliver
    wrote_again = [one for one in again if one.outcome is not Outcome.DONE_BEFORE]
    return [*(["a delayed attempt wrote again"] if wrote_again else []), *_problems(stream)]


def a_driver_sends_after_its_successor_has_fenced(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """The successor has fenced and read the marks; now the slots of the older one begin."""
    from tests.crash.scenarios import Paused

    stream = OutputStream(stack, folder)
    stream.send(90)
    successor = Paused(stream, spark, Failpoint.AFTER_READ)

    def older_sleeps() -> None:
        stream.send(60)
        successor.start()

    with stream.environment(), at(Failpoint.BEFORE_COMMIT, once(older_sleeps)):
        _ends_somehow(stream, spark)
        successor.go_on()
    return _problems(stream)


def a_slot_is_open_when_a_successor_with_fewer_slots_commits(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """The second slot's outputs and marks are sent; the successor delivers them by its only slot, then the older one commits."""
    stream = OutputStream(stack, folder)
    stream.send(90)
    opened = iter([False, True])

    def successor_delivers() -> None:
        if next(opened, False):
            stream.more = {"slots": 1}
            stream.write_file()
            stream.run(spark)

    with _slots_in_this_process(), at(Failpoint.AFTER_MARKS, successor_delivers):
        _ends_somehow(stream, spark)
    return _problems(stream)


def crash_between_the_slots_and_the_log(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    stream = OutputStream(stack, folder)
    stream.send(90, bad=2, filtered=3)
    with at(Failpoint.BEFORE_TELLING, crash):
        try:
            stream.run(spark)
        except FailpointReached:
            stream.send(30)
    stream.run(spark)
    return _problems(stream)


KAFKA_SCENARIOS = (
    a_task_is_tried_again_after_its_commit,
    a_driver_sends_after_its_successor_has_fenced,
    a_slot_is_open_when_a_successor_with_fewer_slots_commits,
    crash_between_the_slots_and_the_log,
)


def _problems(stream: OutputStream) -> list[str]:
    booked = stream.booked().get("read", 0)
    unbooked = [f"{len(stream.sent) - booked} records are in no ledger line"] if booked != len(stream.sent) else []
    return [*stream.problems_of_outputs(), *unbooked]


def _ends_somehow(stream: OutputStream, spark: SparkSession) -> None:
    """As fenced, where nothing is missing; what it did before, the books tell."""
    try:
        stream.run(spark)
    except StreamFailure as failure:
        print(f"the older one ended: {failure}")


@contextmanager
def _slots_in_this_process() -> Iterator[None]:
    """One after the other, so that a failpoint can be acted on."""
    deliver = OpenKafkaBatch._run

    def deliver_here(batch: OpenKafkaBatch, plan: SlotPlan) -> list[SlotResult]:
        assert batch._rows is not None
        rows = batch._rows.toArrow().combine_chunks()
        slots = [plan.slot_of(number) for number in rows.column(0).to_pylist()]
        mine = {slot: rows.take([place for place, one in enumerate(slots) if one == slot]) for slot in sorted(set(slots))}
        return [SlotAttempt(plan, slot).run(part.to_batches()) for slot, part in mine.items()]

    OpenKafkaBatch._run = deliver_here
    try:
        yield
    finally:
        OpenKafkaBatch._run = deliver
