"""Maintenance and a running stream do not disturb each other: both come through, and no driver ends."""

from collections.abc import Callable
from pathlib import Path

import pytest
from delta.exceptions import ConcurrentAppendException
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.local_stack.stack import Stack
from include.tidemarks.delta_log import DeltaLog
from jobs.delta_maintenance import MaintenanceTransaction
from jobs.failpoints import Failpoint
from jobs.maintain_tables import tables_of_streams
from jobs.maintenance import turns
from jobs.maintenance.choosing import TableFile
from jobs.maintenance.tables import MaintainedTable
from jobs.sink import SinkWentBack
from tests.integration.maintenance.trial import maintain, maintain_notes
from tests.latest import LatestStream, rows_of
from tests.running import wait_for
from tests.streams import TrialStream, at

PATIENCE_SECONDS = 240  # a batch that is merged takes four seconds, and twenty where three workers share two cores


def fences(stream: TrialStream) -> int:
    return sum(note["kind"] == "fence" for note in stream.notes())


def is_right(stream: LatestStream) -> bool:
    return DeltaLog(str(stream.table)).newest_version() is not None and stream.wrong_keys() == []


@pytest.mark.thorough
def test_beside_a_running_append_stream(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.write_file(source__max_records_per_batch=30, trigger="1 second")
    stream.send(90)
    with stream.running(spark):
        stream.wait_until_delivered()
        for _ in range(3):
            stream.send(120, bad=1)
            maintain(spark, stream)
        stream.wait_until_delivered()
    assert len(maintain_notes(stream.table)) >= 2
    assert fences(stream) == 1


@pytest.mark.thorough
def test_beside_a_running_merge_stream(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = LatestStream(stack, tmp_path)
    stream.write_file(source__max_records_per_batch=30)
    stream.send_orders(90)
    with stream.running(spark):
        wait_for("the first orders", lambda: is_right(stream), PATIENCE_SECONDS)
        for _ in range(3):
            stream.send_orders(120)
            maintain(spark, stream)
        wait_for("every key to be the newest", lambda: is_right(stream), PATIENCE_SECONDS)
    assert maintain_notes(stream.table)
    assert fences(stream) == 1
    booked = stream.booked()
    assert booked.pop("read") == 450 == sum(booked.values())


def test_who_always_loses_comes_through_with_the_lock(
    stack: Stack, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A batch lands between files and commit of every turn, but for the last, in which it has to wait."""
    stream = LatestStream(stack, tmp_path)
    for _ in range(2):
        stream.send_orders(60)
        stream.run(spark)
    came: list[int] = []

    def a_batch_lands() -> None:
        if len(came) < turns.TURNS - 1:
            came.append(1)
            stream.send_orders(60)
            stream.run(spark)

    with at(Failpoint.BEFORE_MAINTENANCE, a_batch_lands):
        maintain(spark, stream)
    assert "turn 2 of 3 was for nothing" in capsys.readouterr().out
    assert len(maintain_notes(stream.table)) == 1
    assert stream.wrong_keys() == []
    stream.send_orders(60)
    stream.run(spark)
    assert stream.wrong_keys() == []


@pytest.mark.thorough
def test_who_holds_the_lock_for_too_long_lets_go(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's patience has not ended, the table is as it was, and the stream goes on."""
    monkeypatch.setattr(turns, "LOCKED_SECONDS", 2)
    stream = LatestStream(stack, tmp_path)
    for _ in range(2):
        stream.send_orders(60)
        stream.run(spark)
    (table, *_) = _tables(stream)
    files = MaintenanceTransaction(spark, table.path).files()
    version, tried = DeltaLog(table.path).newest_version(), []

    def loses_or_never_ends(_: list[TableFile]) -> int | None:
        tried.append(1)
        if len(tried) < turns.TURNS:
            raise ConcurrentAppendException("somebody was quicker")
        return len(spark.range(2).selectExpr("reflect('java.lang.Thread', 'sleep', 600000L)").collect())

    with pytest.raises(turns.TableTooBusy, match="2 s were not enough"):
        turns.commit_in_turns(spark, table, files, loses_or_never_ends)
    assert DeltaLog(table.path).newest_version() == version
    stream.send_orders(60)
    stream.run(spark)
    assert stream.wrong_keys() == []


def _tables(stream: TrialStream) -> list[MaintainedTable]:
    with stream.environment():
        return list(tables_of_streams(stream.name))


def optimize(spark: SparkSession, stream: LatestStream) -> None:
    DeltaTable.forPath(spark, str(stream.table)).optimize().executeCompaction()


def vacuum(spark: SparkSession, stream: LatestStream) -> None:
    DeltaTable.forPath(spark, str(stream.table)).vacuum()


def append(spark: SparkSession, stream: LatestStream) -> None:
    """A row of a key that is there, older than all: the next newer record takes its place too."""
    row = spark.read.format("delta").load(str(stream.table)).where("user_id = 'u1'").limit(1)
    older = row.withColumn("ts", F.expr("ts - INTERVAL 9 DAYS"))
    older.write.format("delta").mode("append").save(str(stream.table))


def append_without_statistics(spark: SparkSession, stream: LatestStream) -> None:
    spark.conf.set("spark.databricks.delta.stats.collect", "false")
    append(spark, stream)
    spark.conf.unset("spark.databricks.delta.stats.collect")


@pytest.mark.thorough("vacuum", "append_without_statistics")
@pytest.mark.parametrize("act", [optimize, vacuum, append, append_without_statistics], ids=lambda act: act.__name__)
def test_what_others_may_do_beside_a_running_merge(
    act: Callable[[SparkSession, LatestStream], None], stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = LatestStream(stack, tmp_path)
    stream.send_orders(200, deletes=0)
    with stream.running(spark):
        wait_for("the first orders", lambda: is_right(stream), PATIENCE_SECONDS)
        act(spark, stream)
        stream.send_orders(600, deletes=0)
        wait_for("every key to be the newest", lambda: is_right(stream), PATIENCE_SECONDS)
    assert fences(stream) == 1
    assert len(rows_of(stream.table)) == 20


@pytest.mark.thorough
def test_a_restore_stops_a_running_merge(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = LatestStream(stack, tmp_path)
    stream.send_orders(60)
    stream.run(spark)
    with stream.running(spark) as running:
        stream.send_orders(60)
        wait_for("the next orders", lambda: is_right(stream), PATIENCE_SECONDS)
        newest = DeltaLog(str(stream.table)).newest_version() or 0
        DeltaTable.forPath(spark, str(stream.table)).restoreToVersion(newest - 1)
        stream.send_orders(60)
        failure = running.wait_until_it_fails()
    assert isinstance(failure, SinkWentBack)
    stream.run(spark)
    assert stream.wrong_keys() == []
