"""Two processes never commit to one table at the same time, also where a file system lets a rename replace a file."""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from jobs import commit_lock
from jobs.commit_lock import FILE, TableLocked
from jobs.delta_transaction import DeltaTransaction, make_table


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    make_table(spark, str(tmp_path / "table"), spark.range(1).schema, [])
    return str(tmp_path / "table")


@contextmanager
def held(table: str) -> Iterator[None]:
    """By this process, which to the JVM is another."""
    with (Path(table) / FILE).open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield


def commit(spark: SparkSession, table: str, number: int) -> int:
    return DeltaTransaction(spark, table, "s/lake").commit(number, "{}")


def test_a_commit_waits_for_the_one_that_is_under_way(spark: SparkSession, table: str) -> None:
    versions: list[int] = []
    waiting = threading.Thread(target=lambda: versions.append(commit(spark, table, 1)))
    with held(table):
        waiting.start()
        waiting.join(1)
        assert waiting.is_alive()
        assert DeltaTable(table).version() == 0
    waiting.join(30)
    assert versions == [1]


def test_who_holds_the_lock_may_commit_and_another_thread_may_not(spark: SparkSession, table: str) -> None:
    other = threading.Thread(target=lambda: commit(spark, table, 2))
    with commit_lock.commit_lock(spark, table):
        assert commit(spark, table, 1) == 1
        other.start()
        other.join(1)
        assert other.is_alive()
    other.join(30)
    assert DeltaTable(table).version() == 2


def test_a_commit_that_is_never_ended_is_told(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_lock, "PATIENCE_SECONDS", 0.2)
    with held(table), pytest.raises(TableLocked, match="stopped in the middle of a commit") as locked:
        commit(spark, table, 1)
    assert locked.value.exit_class is ExitClass.INFRASTRUCTURE
    assert commit(spark, table, 1) == 1
