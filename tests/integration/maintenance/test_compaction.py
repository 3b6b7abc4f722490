"""Many small files become few; the rows, the books and every later start stay as they were."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable as PlainTable
from pyspark.sql import SparkSession

from include.control.database import ControlDatabase
from include.local_stack.stack import Stack
from include.tidemarks.sink_state import read_sink
from include.tidemarks.sink_watch import SinkWatch
from jobs.failpoints import Failpoint
from jobs.maintain_tables import TablesNotMaintained
from tests.integration.maintenance.trial import files_of, maintain, maintain_notes, make_old, version_of
from tests.integration.reconciliation.trial import Trial
from tests.latest import LatestStream
from tests.running import PROJECT
from tests.streams import TrialStream, at, once


def small_batches(stack: Stack, spark: SparkSession, folder: Path) -> TrialStream:
    stream = TrialStream(stack, folder)
    stream.write_file(source__max_records_per_batch=30)
    stream.send(90, bad=4)
    stream.run(spark)
    assert len(files_of(stream.table)) >= 3
    return stream


def test_small_files_become_one_and_the_books_stay_true(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = small_batches(stack, spark, tmp_path)
    watch = SinkWatch(str(stream.table), stream.name, "lake")
    before = watch.look()
    maintain(spark, stream)
    assert len(files_of(stream.table)) == 1
    assert stream.problems() == []
    (note,) = maintain_notes(stream.table)
    assert (note.tidemark, note.ledger, note.generation, note.owner) == (None, (), before.generation, before.owner)
    assert watch.look() == read_sink(str(stream.table), stream.name, "lake")
    assert watch.look().note == before.note
    stream.send(60)
    stream.run(spark)
    assert stream.problems() == []


@pytest.mark.thorough
def test_there_is_nothing_left_to_do_the_second_time(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = small_batches(stack, spark, tmp_path)
    maintain(spark, stream)
    versions = version_of(stream.table), version_of(stream.quarantine)
    maintain(spark, stream)
    assert (version_of(stream.table), version_of(stream.quarantine)) == versions


def test_a_merged_table_loses_its_marked_rows_and_is_sorted_by_key(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = LatestStream(stack, tmp_path)
    for _ in range(3):
        stream.send_orders(90)
        stream.run(spark)
    maintain(spark, stream, file_size=12_000)  # every file of 5 kB is small, and all together make two
    actions = pa.table(PlainTable(stream.table).get_add_actions(flatten=True)).to_pylist()
    spans = sorted((file["min.user_id"], file["max.user_id"]) for file in actions)
    assert len(spans) > 1
    assert all(above[0] > below[1] for below, above in pairwise(spans))
    assert spark.sql(f"DESCRIBE DETAIL delta.`{stream.table}`").first()["numFiles"] == len(spans)
    assert stream.wrong_keys() == []
    stream.send_orders(90)
    stream.run(spark)
    assert stream.wrong_keys() == []


def test_a_window_with_maintenance_in_it_passes(
    stack: Stack, spark: SparkSession, tmp_path: Path, own_control: ControlDatabase
) -> None:
    trial = Trial(stack, spark, tmp_path, own_control)
    for _ in range(3):
        trial.deliver(30)
    make_old(sorted((trial.stream.table / "_delta_log").glob("*.json")), days=1)
    maintain(spark, trial.stream)
    assert [note.tidemark is not None for note in maintain_notes(trial.stream.table)] == [True, False]
    assert trial.judged().verdict == "passed"
    maintain(spark, trial.stream)
    trial.deliver(30)
    assert trial.judged().verdict == "passed"


def test_a_maintenance_that_is_killed_leaves_nothing_that_anybody_sees(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = small_batches(stack, spark, tmp_path)
    version, files = version_of(stream.table), files_of(stream.table)
    killed = subprocess.run(
        [sys.executable, "-m", "jobs.maintain_tables", stream.name, "maintain"],
        cwd=PROJECT,
        env=stream.variables(TIDEMARK_FAILPOINT=f"{Failpoint.BEFORE_MAINTENANCE}=kill"),
        capture_output=True,
        check=False,
        timeout=200,
    )
    assert killed.returncode == -9, killed.stderr[-2000:]
    assert len(list(stream.table.rglob("*.parquet"))) > len(files)  # it had written
    assert (version_of(stream.table), files_of(stream.table)) == (version, files)
    stream.send(30)
    stream.run(spark)
    maintain(spark, stream)
    assert stream.problems() == []


@pytest.mark.thorough
def test_of_two_at_once_one_does_it_and_the_other_finds_nothing_to_do(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = small_batches(stack, spark, tmp_path)
    with at(Failpoint.BEFORE_MAINTENANCE, once(lambda: maintain(spark, stream))):
        maintain(spark, stream)
    assert len(maintain_notes(stream.table)) == 1
    assert stream.problems() == []


@pytest.mark.thorough
def test_a_table_that_fails_is_named_after_the_others_were_done(
    stack: Stack, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = small_batches(stack, spark, tmp_path)
    spark.range(3).write.format("delta").save(str(stream.table.with_name(f"{stream.name}_b")))
    lake = {"kind": "delta_append", "table": stream.name, "partition_by": ["day"]}
    stream.write_file(sinks={"lake": lake, "a_strange_one": {"kind": "delta_append", "table": f"{stream.name}_b"}})
    with pytest.raises(TablesNotMaintained, match=rf"1 of 3 tables could not be maintained: {stream.name}.a_strange_one"):
        maintain(spark, stream)
    assert len(files_of(stream.table)) == 1
    assert f"{stream.name}.lake: " in capsys.readouterr().out


def test_a_table_that_somebody_changed_is_left_alone(
    stack: Stack, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = small_batches(stack, spark, tmp_path)
    PlainTable(stream.table).delete("_offset = 3")
    version = version_of(stream.table)
    maintain(spark, stream)
    assert version_of(stream.table) == version
    assert "left alone, the stream must stop on it first: Somebody's DELETE" in capsys.readouterr().out
