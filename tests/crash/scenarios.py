"""Short histories, each with one mechanism of the protocol at its heart. Each returns what is wrong with the books after it.

With the product as it is, nothing is. `test_mechanisms.py` also runs them on a copy of the product from which the mechanism was
taken out, and there something must be: python -m tests.crash.scenarios NAME STACK_HOME FOLDER, in a borrowed JVM.
"""

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from delta.tables import DeltaTable
from deltalake import DeltaTable as DeltaFiles
from pyspark.sql import SparkSession

from include.contract.exit_class import StreamFailure
from include.local_stack.home import StackHome
from include.local_stack.stack import Stack
from include.tidemarks.sink_state import TidemarkBroken
from include.topics.topic import Topic
from jobs.failpoints import Failpoint, FailpointReached
from jobs.sink import Fenced, SinkWentBack
from jobs.topic_watch import TopicChanged
from tests.checker import problems
from tests.crash.kafka_scenarios import KAFKA_SCENARIOS
from tests.streams import TrialStream, at, crash, once
from tests.warm_jvm import borrowed

Scenario = Callable[[Stack, SparkSession, Path], list[str]]
TWO_SINKS = {
    "also": {"kind": "delta_append", "table": "{name}_also", "partition_by": []},
    "lake": {"kind": "delta_append", "table": "{name}", "partition_by": ["day"]},
}


def crash_between_two_sinks_then_larger_batches(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """One sink has the batch, the other has not; the next batch is larger and covers both."""
    stream = _with_two_sinks(stack, folder, max_records_per_batch=150)
    stream.send(450)
    with at(Failpoint.AFTER_COMMIT, crash):
        _expect_crash(stream, spark)
    _two_sinks(stream, max_records_per_batch=1000)
    stream.run(spark)
    return _problems_of_both(stream)


def crash_between_two_sinks_of_the_first_batch_from_latest(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """Where `latest` was is known to the second sink only by its adoption."""
    stream = _with_two_sinks(stack, folder, start="latest")
    stream.send(60)
    stream.run(spark)  # begins at the end: nothing to deliver
    stream.sent.clear()
    with at(Failpoint.AFTER_CHECKPOINT, lambda: stream.send(90)), at(Failpoint.AFTER_COMMIT, crash):
        _expect_crash(stream, spark)
    stream.send(30)
    stream.run(spark)
    return _problems_of_both(stream)


def crash_between_two_sinks_then_another_file(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """The records that only one sink has were rows of the old file there; they must be the same rows in the other."""
    stream = _with_two_sinks(stack, folder, max_records_per_batch=150)
    stream.send(450)
    with at(Failpoint.AFTER_COMMIT, crash):
        _expect_crash(stream, spark)
    _two_sinks(stream, select={"day": "date(ts)", "amount_cents": "cast(amount * 200 as bigint)"})
    stream.run(spark)
    rows = [{_place(row): row["amount_cents"] for row in stream.rows(also)} for also in ("", "_also")]
    differ = [place for place in rows[0] if rows[0][place] != rows[1].get(place)]
    told = [f"{len(differ)} records are other rows in one sink than in the other"] if differ else []
    return [*told, *_problems_of_both(stream)]


def a_sink_is_added_from_earliest_then_crash_and_another_file(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """What it lacks was made without it, by a file that does not know it; its bad records are in the quarantine already."""
    stream = TrialStream(stack, folder)
    stream.send(300, bad=6)
    stream.run(spark)
    _two_sinks(stream, begin="earliest", max_records_per_batch=120)
    with at(Failpoint.AFTER_COMMIT, crash):
        _expect_crash(stream, spark)
    _two_sinks(stream, select={"day": "date(ts)", "amount_cents": "cast(amount * 200 as bigint)"})
    stream.send(30)
    stream.run(spark)
    kept = Counter(_place(row) for row in DeltaFiles(stream.quarantine).to_pyarrow_table().to_pylist())
    again = [place for place, times in kept.items() if times > 1]
    return [*([f"{len(again)} quarantined again for the added sink"] if again else []), *_problems_of_both(stream)]


def an_older_driver_goes_on_after_a_newer_one(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """The older has taken over, but not begun its first batch, when the newer takes over and delivers."""
    stream = TrialStream(stack, folder)
    stream.send(90)
    with at(Failpoint.AFTER_CHECKPOINT, once(lambda: stream.run(spark))):
        _ends(stream, spark, Fenced)
    return stream.problems()


def a_zombie_commits_while_its_successor_takes_over(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """The successor has fenced and read the tidemarks; now the zombie commits the batch it had in hand."""
    stream = TrialStream(stack, folder)
    stream.send(90)
    successor = Paused(stream, spark, Failpoint.AFTER_READ)

    def zombie_sleeps() -> None:
        stream.send(60)
        successor.start()

    with stream.environment(), at(Failpoint.BEFORE_COMMIT, once(zombie_sleeps)):  # for both, to the end
        _ends(stream, spark, Fenced)
        successor.go_on()
    return stream.problems()


def crash_right_after_the_sinks_commit(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """The driver dies right after the sink's commit: whatever comes after it would be lost."""
    stream = TrialStream(stack, folder, partitions=1)
    stream.send(30, bad=4)
    with at(Failpoint.AFTER_COMMIT, crash):
        _expect_crash(stream, spark)
    stream.send(10)
    stream.run(spark)
    return stream.problems()


def crash_after_the_quarantine(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """The bad records are kept already when the batch is read again."""
    stream = TrialStream(stack, folder, partitions=1)
    stream.send(30, bad=4)
    with at(Failpoint.AFTER_QUARANTINE, crash):
        _expect_crash(stream, spark)
    stream.run(spark)
    return stream.problems()


def a_restore_under_a_running_batch(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """Between the look before a batch and its commit somebody restores the table; then the stream is started again."""
    stream = TrialStream(stack, folder, partitions=1)
    for _ in range(2):
        stream.send(30)
        stream.run(spark)
    stream.send(30)
    restore = once(lambda: DeltaTable.forPath(spark, str(stream.table)).restoreToVersion(3))
    with at(Failpoint.BEFORE_COMMIT, restore):
        _ends(stream, spark, SinkWentBack)
    _ends(stream, spark, TidemarkBroken)
    adopted = [note["tidemark"]["offsets"]["0"] for note in stream.notes() if note["kind"] == "adopt"]
    missing = set(stream.sent) - {_place(row) for row in stream.rows()}
    return [f"{len(missing)} lost, and the stream goes on above them"] if missing and adopted[-1] == len(stream.sent) else []


def the_topic_is_made_anew_before_the_commit(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """Its records have the offsets that come next, but are not the next records."""
    stream = TrialStream(stack, folder, partitions=1)
    stream.send(30)
    stream.run(spark)
    rows = len(stream.rows())

    def remake() -> None:
        stream.remake_topic()
        stream.send(60)

    stream.send(1)
    with at(Failpoint.AFTER_CHECKPOINT, remake):
        _ends(stream, spark, TopicChanged)
    strange = len(stream.rows()) - rows
    return [f"{strange} rows of another topic"] if strange else []


def a_topic_that_was_made_anew_is_approved(stack: Stack, spark: SparkSession, folder: Path) -> list[str]:
    """Its records have offsets that the table has already, of the old topic."""
    stream = TrialStream(stack, folder, partitions=1)
    stream.send(30)
    stream.run(spark)
    stream.remake_topic()
    stream.sent.clear()
    stream.send(60)
    stream.run(spark, "--accept-topic", Topic(stack.kafka.connection.address, stream.name).topic_id())
    return stream.problems(epoch=2)


SCENARIOS: dict[str, Scenario] = {
    function.__name__: function
    for function in (
        crash_between_two_sinks_then_larger_batches,
        crash_between_two_sinks_of_the_first_batch_from_latest,
        crash_between_two_sinks_then_another_file,
        a_sink_is_added_from_earliest_then_crash_and_another_file,
        an_older_driver_goes_on_after_a_newer_one,
        a_zombie_commits_while_its_successor_takes_over,
        crash_right_after_the_sinks_commit,
        crash_after_the_quarantine,
        a_restore_under_a_running_batch,
        the_topic_is_made_anew_before_the_commit,
        a_topic_that_was_made_anew_is_approved,
        *KAFKA_SCENARIOS,
    )
}


class Paused:
    """A driver in a thread of its own that waits at a failpoint until it may go on."""

    def __init__(self, stream: TrialStream, spark: SparkSession, point: Failpoint) -> None:
        self._stream = stream
        self._spark = spark
        self._point = point
        self._arrived, self._may_go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._drive)

    def start(self) -> None:
        self._thread.start()
        assert self._arrived.wait(60)

    def go_on(self) -> None:
        self._may_go_on.set()
        self._thread.join(90)

    def _drive(self) -> None:
        with at(self._point, self._wait):
            try:
                self._stream.run(self._spark)
            except StreamFailure as failure:
                print(f"the successor ended: {failure}")

    def _wait(self) -> None:
        if threading.current_thread() is self._thread:
            self._arrived.set()
            assert self._may_go_on.wait(60)


def _expect_crash(stream: TrialStream, spark: SparkSession) -> None:
    try:
        stream.run(spark)
    except FailpointReached:
        return
    raise AssertionError("the driver did not come by the failpoint")


def _ends(stream: TrialStream, spark: SparkSession, expected: type[StreamFailure]) -> None:
    """As the protocol wants it; or not at all, where a mechanism is missing: then the books tell."""
    try:
        stream.run(spark)
    except expected:
        return
    print(f"did not end as {expected.__name__}")


def _with_two_sinks(stack: Stack, folder: Path, **source: object) -> TrialStream:
    stream = TrialStream(stack, folder)
    _two_sinks(stream, **source)
    return stream


def _place(row: dict[str, object]) -> tuple[object, object]:
    return row["_partition"], row["_offset"]


def _two_sinks(stream: TrialStream, select: dict[str, str] | None = None, begin: str | None = None, **source: object) -> None:
    sinks = {name: sink | {"table": str(sink["table"]).format(name=stream.name)} for name, sink in TWO_SINKS.items()}
    sinks["also"] |= {"from": begin} if begin else {}
    changes = {f"source__{key}": value for key, value in source.items()}
    stream.write_file(sinks=sinks, **changes, **({"select": select} if select else {}))


def _problems_of_both(stream: TrialStream) -> list[str]:
    also = problems(stream.sent, stream.table.with_name(f"{stream.name}_also"), stream.quarantine)
    return [*(f"also: {problem}" for problem in also), *(f"lake: {problem}" for problem in stream.problems())]


def main(name: str, home: str, folder: str) -> None:
    stack = Stack(StackHome(Path(home)))
    os.environ.update(stack.job_environment())
    try:
        found = SCENARIOS[name](stack, borrowed(), Path(folder))
    except StreamFailure as failure:
        found = [f"the stream does not start: {type(failure).__name__}"]
    print("PROBLEMS " + json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
