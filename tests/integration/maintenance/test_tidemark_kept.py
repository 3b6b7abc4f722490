"""A quiet table keeps its tidemark when Delta cleans its log up, old deletes leave, and VACUUM takes only what nobody needs."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable as PlainTable
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from include.tidemarks.commit import LogUnreadable
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.sink_state import TidemarkLost, read_sink
from jobs.commit_lock import FILE
from tests.integration.maintenance.trial import files_of, maintain, maintain_notes, make_old, version_of
from tests.latest import FIRST_TIME, LatestStream, rows_of
from tests.streams import TrialStream


def clean_up_log(spark: SparkSession, table: Path) -> None:
    """As after each 50th commit: what is older than 30 days goes, if a checkpoint that is as old holds what it says."""
    jvm: Any = spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog
    log.clearCache()
    there = log.forTable(spark._jsparkSession, str(table))
    there.checkpointAndCleanUpDeltaLog(there.unsafeVolatileSnapshot(), jvm.scala.Option.empty())


def quiet_for_a_month(stack: Stack, spark: SparkSession, folder: Path) -> TrialStream:
    stream = TrialStream(stack, folder)
    for _ in range(2):
        stream.send(60)
        stream.run(spark)
    touch(stream)
    clean_up_log(spark, stream.table)
    make_old(list((stream.table / "_delta_log").glob("*.*")), days=40)
    return stream


def touch(stream: TrialStream) -> None:
    """Somebody's commit that does not matter, but is newer than the tidemark's."""
    PlainTable(stream.table).alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})


def test_the_next_start_begins_at_a_tidemark_whose_commit_was_cleaned_up(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = quiet_for_a_month(stack, spark, tmp_path)
    held = read_sink(str(stream.table), stream.name, "lake").tidemark
    maintain(spark, stream)
    touch(stream)
    clean_up_log(spark, stream.table)
    assert all(note.kind == "maintain" for note in notes_left(stream))
    assert read_sink(str(stream.table), stream.name, "lake").tidemark == held
    stream.send(60)
    stream.run(spark)
    assert sorted((row["_partition"], row["_offset"]) for row in stream.rows()) == sorted(stream.sent)


def notes_left(stream: TrialStream) -> list[Any]:
    log = DeltaLog(str(stream.table))
    left = [log.commit(version).note for version in range(log.oldest_version(), (log.newest_version() or 0) + 1)]
    return [note for note in left if note is not None]


@pytest.mark.thorough
def test_without_the_repeat_nobody_would_know_where_it_is(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.maintenance.maintain.repeat_tidemark", lambda *_: False)
    stream = quiet_for_a_month(stack, spark, tmp_path)
    maintain(spark, stream)
    touch(stream)
    clean_up_log(spark, stream.table)
    stream.send(60)
    with pytest.raises((TidemarkLost, LogUnreadable)):
        stream.run(spark)


def test_a_tidemark_is_repeated_exactly_and_only_when_it_is_old(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(60)
    stream.run(spark)
    before = read_sink(str(stream.table), stream.name, "lake")
    maintain(spark, stream)
    assert [note for note in maintain_notes(stream.table) if note.tidemark] == []
    make_old(sorted((stream.table / "_delta_log").glob("*.json")), days=1)
    for _ in range(2):  # the second time it is young
        version = version_of(stream.table)
        maintain(spark, stream)
        (note,) = (note for note in maintain_notes(stream.table) if note.tidemark)
    assert version_of(stream.table) == version
    assert note.tidemark == note.builds_on == before.tidemark
    assert (note.generation, note.owner, note.made_by, note.looked) == (1, before.owner, before.note.made_by, version - 1)  # type: ignore[union-attr]
    stream.send(60)
    stream.run(spark)
    assert stream.problems() == []


def test_vacuum_takes_what_is_old_and_nobodys_and_makes_no_commit(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(60)
    stream.run(spark)
    (partition,) = stream.table.glob("day=*")
    content = next(partition.glob("*.parquet")).read_bytes()
    orphans = {name: partition / f"part-0000{name}-orphan.snappy.parquet" for name in "12"}
    for orphan in orphans.values():
        orphan.write_bytes(content)
    make_old([orphans["1"], stream.table / FILE], days=8)
    make_old([orphans["2"]], days=6)
    PlainTable(stream.table).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 hour"})
    maintain(spark, stream, keep_removed_files=timedelta(days=9))
    assert all(orphan.exists() for orphan in orphans.values())  # ours counts, not the table's shorter one
    version, files = version_of(stream.table), files_of(stream.table)
    maintain(spark, stream)
    assert [orphan.exists() for orphan in orphans.values()] == [False, True]
    assert (stream.table / FILE).exists()
    commits = [commit for commit in PlainTable(stream.table).history() if commit["version"] > version]
    assert [json.loads(commit["userMetadata"])["kind"] for commit in commits] in ([], ["maintain"])
    assert stream.problems() == []
    still_there = {file.name for file in stream.table.rglob("*.parquet")}
    assert {unquote(Path(file).name) for file in files} <= still_there  # for a query that reads the version before


def test_old_deletes_leave_the_table_and_an_older_record_brings_its_key_back(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = LatestStream(stack, tmp_path, sink={"purge_deleted_after": "1 second"})
    stream.send_orders(200, deletes=0.4)
    stream.run(spark)
    there = {row["user_id"]: row["_deleted"] for row in rows_of(stream.table)}
    gone = sorted(user for user, deleted in there.items() if deleted)
    assert gone
    maintain(spark, stream)
    left = {row["user_id"]: row["_deleted"] for row in rows_of(stream.table)}
    assert left == {user: deleted for user, deleted in there.items() if not deleted}
    old = {"event_id": "old", "user_id": gone[0], "amount": 1, "ts": FIRST_TIME.replace(year=2020).isoformat(), "gone": False}
    producer = stream.producer()
    producer.produce(stream.name, json.dumps(old), partition=0)
    assert producer.flush(30) == 0
    stream.run(spark)
    assert [row["event_id"] for row in rows_of(stream.table) if row["user_id"] == gone[0]] == ["old"]
