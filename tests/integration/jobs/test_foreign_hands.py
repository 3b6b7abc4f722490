"""Others work on the table too. What keeps the rows is walked past; what takes rows away stops the stream, by name (P4)."""

from collections.abc import Callable
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from deltalake import DeltaTable as DeltaFiles  # its RESTORE takes a hundredth of the time of Spark's
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.local_stack.stack import Stack
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.sink_state import ForeignTidemark, RowsWithoutTidemark, TidemarkBroken, TidemarkLost, read_sink
from jobs.failpoints import Failpoint
from jobs.sink import SchemaDiffers, SinkWentBack
from jobs.take_over import StartRefused
from tests.running import wait_for
from tests.streams import TrialStream, at, exit_class_of, once

Act = Callable[[SparkSession, TrialStream], None]


def delete(spark: SparkSession, stream: TrialStream) -> None:
    DeltaTable.forPath(spark, str(stream.table)).delete("_offset = 3")


def overwrite(spark: SparkSession, stream: TrialStream) -> None:
    rows = spark.read.format("delta").load(str(stream.table)).where("_offset > 5").localCheckpoint()
    rows.write.format("delta").mode("overwrite").save(str(stream.table))


def update(spark: SparkSession, stream: TrialStream) -> None:
    DeltaTable.forPath(spark, str(stream.table)).update("_offset = 3", {"user_id": "'somebody'"})


def restore(spark: SparkSession, stream: TrialStream) -> None:
    DeltaTable.forPath(spark, str(stream.table)).restoreToVersion(stream_version(stream) - 1)


def optimize(spark: SparkSession, stream: TrialStream) -> None:
    DeltaTable.forPath(spark, str(stream.table)).optimize().executeCompaction()


def append(spark: SparkSession, stream: TrialStream) -> None:
    rows = spark.read.format("delta").load(str(stream.table)).limit(1).selectExpr("* except (_partition)", "-1 as _partition")
    rows.write.format("delta").mode("append").save(str(stream.table))


def stream_version(stream: TrialStream) -> int:
    return read_sink(str(stream.table), stream.name, "lake").version or 0


@pytest.fixture
def stream(stack: Stack, spark: SparkSession, tmp_path: Path) -> TrialStream:
    """With two batches: the table is made, fenced, adopted, and written twice."""
    stream = TrialStream(stack, tmp_path)
    stream.write_file(source__max_records_per_batch=60)
    stream.send(120)
    stream.run(spark)
    stream.write_file()
    return stream


@pytest.mark.thorough("update", "delete")
@pytest.mark.parametrize(
    ("act", "name"), [(delete, "DELETE"), (overwrite, "WRITE"), (update, "UPDATE")], ids=["delete", "overwrite", "update"]
)
def test_a_change_of_rows_is_refused_until_somebody_accepts_it(
    act: Act, name: str, stream: TrialStream, spark: SparkSession
) -> None:
    act(spark, stream)
    changed = stream_version(stream)
    stream.send(30)
    with pytest.raises(StartRefused, match=rf"Somebody's {name} removed .* files with their rows .*version {changed}") as refused:
        stream.run(spark)
    assert exit_class_of(refused.value) is ExitClass.SINK_WENT_BACK
    rows = len(stream.rows())
    stream.run(spark, "--accept", f"lake:{changed}")
    assert len(stream.rows()) == rows + 30
    stream.run(spark)  # accepted once, not asked again


@pytest.mark.parametrize(
    ("act", "name"), [(delete, "DELETE"), (overwrite, "WRITE"), (restore, "RESTORE")], ids=["delete", "overwrite", "restore"]
)
def test_a_change_of_rows_stops_a_running_stream(act: Act, name: str, stream: TrialStream, spark: SparkSession) -> None:
    with stream.running(spark) as running:
        stream.send(30)
        stream.wait_until_delivered()
        act(spark, stream)
        stream.send(30)
        failure = running.wait_until_it_fails()
    assert isinstance(failure, SinkWentBack)
    assert failure.evidence["operation"] == name


def test_after_a_restore_the_next_start_delivers_what_is_missing(stream: TrialStream, spark: SparkSession) -> None:
    DeltaTable.forPath(spark, str(stream.table)).restoreToVersion(3)  # created, fenced, adopted, first batch
    assert len(stream.rows()) == 60
    stream.run(spark)
    rows = [(row["_partition"], row["_offset"]) for row in stream.rows()]
    assert sorted(rows) == sorted(stream.sent)


@pytest.mark.thorough
def test_a_restore_to_a_time_is_understood_too(stream: TrialStream, spark: SparkSession) -> None:
    table = DeltaTable.forPath(spark, str(stream.table))
    (first_batch,) = [row["timestamp"] for row in table.history().collect() if row["version"] == 3]
    spark.sql(f"RESTORE TABLE delta.`{stream.table}` TO TIMESTAMP AS OF '{first_batch}'")
    assert len(stream.rows()) == 60
    stream.run(spark)
    assert sorted((row["_partition"], row["_offset"]) for row in stream.rows()) == sorted(stream.sent)


@pytest.mark.thorough("append")
@pytest.mark.parametrize("act", [optimize, append], ids=lambda act: act.__name__)
def test_what_keeps_the_rows_is_walked_past(act: Act, stream: TrialStream, spark: SparkSession) -> None:
    with stream.running(spark):
        stream.send(30)
        wait_for("30 more rows", lambda: len(stream.rows()) == 150, 60)
        act(spark, stream)
        stream.send(30)
        wait_for("30 more rows", lambda: len([row for row in stream.rows() if row["_partition"] >= 0]) == 180, 60)
    act(spark, stream)
    stream.run(spark)
    rows = [(row["_partition"], row["_offset"]) for row in stream.rows() if row["_partition"] >= 0]
    assert sorted(rows) == sorted(stream.sent)


@pytest.mark.thorough
def test_a_batch_that_was_built_on_a_restored_away_tidemark_is_found_at_the_next_start(
    stream: TrialStream, spark: SparkSession
) -> None:
    """The RESTORE lands between the look before a batch and its commit."""
    stream.send(30)
    with pytest.raises(SinkWentBack, match="RESTORE"), at(Failpoint.BEFORE_COMMIT, once(lambda: restore(spark, stream))):
        stream.run(spark)
    broken = stream_version_of_last_batch(stream)
    with pytest.raises(TidemarkBroken, match=f"RESTORE the table to version {broken - 1}") as refused:
        stream.run(spark)
    assert exit_class_of(refused.value) is ExitClass.SINK_WENT_BACK
    DeltaFiles(stream.table).restore(broken - 1)
    stream.run(spark)
    assert sorted((row["_partition"], row["_offset"]) for row in stream.rows()) == sorted(stream.sent)


def stream_version_of_last_batch(stream: TrialStream) -> int:
    log = DeltaLog(str(stream.table))
    newest = log.newest_version() or 0
    return next(n for n in range(newest, -1, -1) if (note := log.commit(n).note) and note.kind == "batch")


def test_a_quarantine_that_went_back_stops_the_next_start(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(60, bad=3)
    stream.run(spark)
    DeltaFiles(stream.quarantine).restore(2)  # adopted, but without the batch that the sink's commit names
    with pytest.raises(StartRefused) as refused:
        stream.run(spark)
    assert exit_class_of(refused.value) is ExitClass.SINK_WENT_BACK


def test_a_table_of_another_stream_is_refused(stream: TrialStream, spark: SparkSession, tmp_path: Path) -> None:
    other = TrialStream(stream.stack, tmp_path)
    other.write_file(sinks={"lake": {"kind": "delta_append", "table": stream.name, "partition_by": ["day"]}})
    with pytest.raises(ForeignTidemark, match=f"holds the tidemark of {stream.name}.lake"):
        other.run(spark)


def test_a_table_with_rows_of_unknown_origin_is_refused(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    spark.range(3).write.format("delta").save(str(stream.table))
    with pytest.raises(RowsWithoutTidemark, match="has rows but no tidemark"):
        stream.run(spark)


def test_a_table_that_was_thrown_away_is_not_taken_for_new(stream: TrialStream, spark: SparkSession, tmp_path: Path) -> None:
    stream.table.rename(tmp_path / "away")
    with pytest.raises(TidemarkLost, match="control database knows"):
        stream.run(spark)
    (tmp_path / "away").rename(stream.table)
    stream.run(spark)
    assert stream.problems() == []


def test_a_table_that_was_restored_to_its_first_fence_is_not_taken_for_new(stream: TrialStream, spark: SparkSession) -> None:
    """Also when the control database has forgotten it."""
    DeltaFiles(stream.table).restore(1)
    with ControlDatabase(stream.stack.postgres.connection("tidemark")).transaction() as cursor:
        cursor.execute("DELETE FROM ledger WHERE stream = %s", [stream.name])
    with pytest.raises(TidemarkLost, match="up to generation 1, but has no tidemark"):
        stream.run(spark)


def test_another_schema_is_told_column_by_column(stream: TrialStream, spark: SparkSession) -> None:
    stream.write_file(select={"day": "date(ts)", "amount_cents": "cast(amount * 100 as int)", "half": "amount / 2"})
    with pytest.raises(
        SchemaDiffers, match=r"column amount_cents is bigint there, int in the file; column half is absent there"
    ) as refused:
        stream.run(spark)
    assert exit_class_of(refused.value) is ExitClass.SCHEMA
