"""A sink that is added to a stream that has run, or comes back to its file, gets each record once; whatever crashes (P2)."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from jobs.take_over import StartRefused
from tests.checker import problems
from tests.streams import TrialStream, at, crash, exit_class_of, once

SMALL = 90  # records of a batch: several are needed to catch up


def with_sinks(stream: TrialStream, *names: str, begin: str | None = None, factor: int = 100, size: int = SMALL) -> None:
    """`also` has the key; `factor` makes another spec, whose rows can be told apart."""
    key = {"from": begin} if begin else {}
    sinks = {
        "also": {"kind": "delta_append", "table": f"{stream.name}_also", **key},
        "lake": {"kind": "delta_append", "table": stream.name, "partition_by": ["day"]},
    }
    stream.write_file(
        sinks={name: sinks[name] for name in names},
        select={"day": "date(ts)", "amount_cents": f"cast(amount * {factor} as bigint)"},
        source__max_records_per_batch=size,
    )


def run_with(stream: TrialStream, spark: SparkSession, *names: str, **more: Any) -> None:
    with_sinks(stream, *names, **more)
    stream.run(spark)


def crash_at(stream: TrialStream, spark: SparkSession, point: Failpoint, turn: int = 1) -> None:
    times = iter(range(1, 1_000))
    with pytest.raises(FailpointReached), at(point, lambda: crash() if next(times) == turn else None):
        stream.run(spark)


def problems_of_both(stream: TrialStream, since: Callable[[int, int], bool] = lambda partition, offset: True) -> list[str]:
    """`since`: whether `also` was to get a record at all."""
    sent = {place: record for place, record in stream.sent.items() if since(*place)}
    also = problems(sent, stream.table.with_name(f"{stream.name}_also"), stream.quarantine)
    if len(sent) < len(stream.sent):
        also = [problem for problem in also if "quarantined but not bad" not in problem]
    return [*(f"also: {problem}" for problem in also), *stream.problems(), *quarantined_twice(stream)]


def quarantined_twice(stream: TrialStream) -> list[str]:
    """By coordinates alone: the file with one more sink is another spec, but judges no record otherwise."""
    kept = DeltaTable(stream.quarantine).to_pyarrow_table(columns=["_partition", "_offset"]).to_pylist()
    twice = [place for place, times in Counter((row["_partition"], row["_offset"]) for row in kept).items() if times > 1]
    return [f"{len(twice)} in the quarantine twice"] if twice else []


def factors(stream: TrialStream, suffix: str, partition: int) -> list[int]:
    """By offset: which spec made the row."""
    rows = sorted((row for row in stream.rows(suffix) if row["_partition"] == partition), key=lambda row: row["_offset"])
    return [row["amount_cents"] // 5 for row in rows]


def test_a_sink_that_is_added_without_the_key_is_refused_and_nothing_is_touched(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(30)
    run_with(stream, spark, "lake")
    with_sinks(stream, "also", "lake")
    with pytest.raises(StartRefused, match="Sink also is new") as refused:
        stream.run(spark)
    assert "sinks.also.from is `earliest`" in refused.value.next_step
    assert exit_class_of(refused.value) is ExitClass.CONFIGURATION
    assert not stream.table.with_name(f"{stream.name}_also").exists()


@pytest.mark.thorough("take_over.after_fence-1", "sink.after_commit-2", "sink.before_commit-2")
@pytest.mark.parametrize(
    ("point", "turn"),
    [(Failpoint.AFTER_FENCE, 1), (Failpoint.AFTER_ADOPTION, 1), (Failpoint.BEFORE_COMMIT, 2), (Failpoint.AFTER_COMMIT, 2)],
    ids=lambda value: str(value),
)
def test_from_earliest_gets_everything_once_and_is_pinned_by_its_adoption(
    point: Failpoint, turn: int, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """After the adoption the key may say what it likes, and others may go on alone."""
    stream = TrialStream(stack, tmp_path)
    stream.send(200, bad=6, filtered=10)
    run_with(stream, spark, "lake")
    with_sinks(stream, "also", "lake", begin="earliest")
    crash_at(stream, spark, point, turn)
    stream.send(40, bad=3)
    is_adopted = point is not Failpoint.AFTER_FENCE
    if is_adopted:
        run_with(stream, spark, "lake")
    run_with(stream, spark, "also", "lake", begin="now" if is_adopted else "earliest")
    stream.send(30)
    stream.run(spark)
    assert problems_of_both(stream) == []


def test_from_now_begins_where_the_others_are_and_is_not_resolved_again(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(90, bad=3)
    run_with(stream, spark, "lake")
    before = set(stream.sent)
    with_sinks(stream, "also", "lake", begin="now")
    stream.send(60, bad=3)
    crash_at(stream, spark, Failpoint.AFTER_CHECKPOINT)
    run_with(stream, spark, "lake")  # goes on alone: `now` would be another place by now
    run_with(stream, spark, "also", "lake", begin="now")
    assert problems_of_both(stream, lambda *place: place not in before) == []


def test_a_sink_that_comes_back_goes_on_at_its_tidemark_by_the_file_that_brings_it_back(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    for names, factor in ((("also", "lake"), 100), (("lake",), 200), (("also", "lake"), 300)):
        stream.send(40, bad=2)
        run_with(stream, spark, *names, factor=factor)
    assert factors(stream, "", 0) == [100] * 40 + [200] * 40 + [300] * 40
    assert factors(stream, "_also", 0) == [100] * 40 + [300] * 80
    assert problems_of_both(stream) == []


def test_rows_of_an_older_file_are_made_for_an_added_sink_by_the_present_one(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """And a crash on the way, with yet another file after it, is nothing to level: the others had those records without it."""
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(200)
    run_with(stream, spark, "lake", factor=100)
    with_sinks(stream, "also", "lake", begin="earliest", factor=200)
    crash_at(stream, spark, Failpoint.AFTER_COMMIT)
    run_with(stream, spark, "also", "lake", factor=300)
    assert factors(stream, "", 0) == [100] * 200
    assert factors(stream, "_also", 0) == [200] * SMALL + [300] * (200 - SMALL)
    assert problems_of_both(stream) == []


def test_where_an_added_sink_has_caught_up_it_is_levelled_like_any_other(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """In partition 0 it has passed the other when the driver dies; in partition 1 it is far behind. Then the file changes."""
    stream = TrialStream(stack, tmp_path, partitions=2)
    stream.send(10, partition=0)
    stream.send(200, partition=1)
    run_with(stream, spark, "lake", factor=100)
    stream.send(190, partition=0)
    with_sinks(stream, "also", "lake", begin="earliest", factor=200)
    crash_at(stream, spark, Failpoint.AFTER_COMMIT)
    passed = len(factors(stream, "_also", 0))
    behind = len(factors(stream, "_also", 1))
    assert passed > 10
    assert behind < 200
    run_with(stream, spark, "also", "lake", factor=300)
    assert factors(stream, "", 0) == [100] * 10 + [200] * (passed - 10) + [300] * (200 - passed)
    assert factors(stream, "_also", 0) == [200] * passed + [300] * (200 - passed)
    assert factors(stream, "_also", 1) == [200] * behind + [300] * (200 - behind)
    assert problems_of_both(stream) == []


def test_sinks_that_were_uneven_are_levelled_before_another_begins_now(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    lake = {"kind": "delta_append", "table": stream.name}
    more = {"kind": "delta_append", "table": f"{stream.name}_more"}
    stream.write_file(sinks={"lake": lake, "more": more})
    stream.send(60)
    crash_at(stream, spark, Failpoint.AFTER_COMMIT)  # lake has them, more has not
    also = {"kind": "delta_append", "table": f"{stream.name}_also", "from": "now"}
    stream.write_file(sinks={"also": also, "lake": lake, "more": more}, where="amount > 100")
    stream.run(spark)
    assert [len(stream.rows(suffix)) for suffix in ("", "_more", "_also")] == [60, 60, 0]


@pytest.mark.thorough
def test_from_earliest_beside_a_topic_that_was_made_anew_gets_all_of_the_new_one(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(50)
    run_with(stream, spark, "lake")
    stream.remake_topic()
    stream.sent.clear()
    stream.send(30, bad=2)
    with pytest.raises(StartRefused, match="The topic was made anew") as refused:
        run_with(stream, spark, "also", "lake", begin="earliest")
    accepted = refused.value.next_step.partition("TOPIC_ID=")[2].partition(")")[0]
    with at(Failpoint.AFTER_ADOPTION, once(crash)), pytest.raises(FailpointReached):
        stream.run(spark, "--accept-topic", accepted)
    stream.send(20)
    stream.run(spark)
    assert stream.problems(epoch=2) == []
    assert problems(stream.sent, stream.table.with_name(f"{stream.name}_also"), stream.quarantine) == []


def test_a_sink_that_was_away_when_the_topic_was_made_anew_needs_an_approval(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(50)
    run_with(stream, spark, "also", "lake")
    stream.remake_topic()
    stream.sent.clear()
    stream.send(30)
    with_sinks(stream, "lake")
    with pytest.raises(StartRefused) as refused:
        stream.run(spark)
    accepted = refused.value.next_step.partition("TOPIC_ID=")[2].partition(")")[0]
    stream.run(spark, "--accept-topic", accepted)
    with_sinks(stream, "also", "lake")
    with pytest.raises(StartRefused, match="made anew while it was out of the file"):
        stream.run(spark)
    stream.run(spark, "--accept-topic", accepted)
    assert stream.problems(epoch=2) == []
    assert problems(stream.sent, stream.table.with_name(f"{stream.name}_also"), stream.quarantine, epoch=2) == []


@pytest.mark.thorough
def test_old_bad_records_in_larger_batches_are_no_flood(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Each time as many as a batch may have; all at once they would end the stream."""
    stream = TrialStream(stack, tmp_path, partitions=1)
    for _ in range(2):
        stream.send(50, bad=100)
        run_with(stream, spark, "lake", size=300)
    run_with(stream, spark, "also", "lake", begin="earliest", size=300)
    assert problems_of_both(stream) == []
