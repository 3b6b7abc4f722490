"""Backups of a real query that runs: each is whole, and from a restored one a query goes on with the right state."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from include.checkpoints.backup import list_backups, make_backup, restore_backup, verify_backup
from include.checkpoints.examine import examine
from include.checkpoints.rehearse import rehearse
from include.checkpoints.spark_log import last_committed
from include.local_stack.stack import Stack
from tests.integration.checkpoints.stateful_query import StatefulQuery, Sums

OPERATORS = 2
RETAINED = 2  # batches: Spark removes older files as it goes, under the hands of whoever copies them


def test_a_backup_of_a_running_query_is_whole_and_can_be_gone_on_from(spark: SparkSession, stack: Stack, tmp_path: Path) -> None:
    query = StatefulQuery(spark, stack, retained=RETAINED)
    checkpoint, backups = tmp_path / "c000001", tmp_path / "backups"
    query.begin(checkpoint)
    query.send(120)
    changed = query.run(checkpoint)
    query.send(600)
    begun_at = last_committed(checkpoint)
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(query.run, checkpoint)
        while not running.done():
            make_backup(checkpoint, backups, query.topic, {}, OPERATORS)
    changed |= running.result()
    assert not (checkpoint / "offsets" / "0").exists()
    taken = list_backups(backups)
    batches = {backup.tidemark["checkpoint"]["batch"] for backup in taken}
    assert len(batches) >= 3, "the query was too quick to be backed up while it ran"
    for backup in taken:
        verify_backup(backup)
    query.send(60)
    middle = taken[len(taken) // 2]
    batch = restore_backup(middle, tmp_path / "c000002")
    assert begun_at is not None
    assert begun_at <= batch < max(changed)
    result: Sums = {}
    for sums in (
        {number: sums for number, sums in changed.items() if number <= batch} | query.run(tmp_path / "c000002")
    ).values():
        result |= sums
    assert result == query.expected()
    assert examine(tmp_path / "c000002", query.topic, OPERATORS).damages == ()
    point = rehearse(backups, query.topic, tmp_path, OPERATORS)
    assert point is not None
    assert point.whole.batch == max(batches)
