"""The calls into Delta's own classes do what jobs/delta_transaction.py says, on the pinned version."""

from pathlib import Path

import pytest
from delta.exceptions import ConcurrentTransactionException
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.tidemarks.delta_log import DeltaLog
from jobs.delta_transaction import DeltaTransaction, make_table


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    place = str(tmp_path / "où, with a space")
    make_table(spark, place, spark.range(1).selectExpr("id", "id % 3 AS part").schema, ["part"])
    return place


def test_rows_note_and_transaction_version_are_one_commit(spark: SparkSession, table: str) -> None:
    transaction = DeltaTransaction(spark, table, "s/lake")
    assert transaction.partition_by == ("part",)
    assert transaction.schema.names == ["id", "part"]
    transaction.write(spark.range(10).selectExpr("id", "id % 3 AS part"))
    assert transaction.rows_written == 10
    assert DeltaTable(table).to_pyarrow_table().num_rows == 0  # nobody sees them yet
    version = transaction.commit(7 << 32, '{"a note": 1}')
    read = DeltaTable(table)
    assert (read.version(), read.to_pyarrow_table().num_rows, read.transaction_version("s/lake")) == (version, 10, 7 << 32)
    commit = DeltaLog(table).commit(version)
    assert (commit.user_metadata, commit.transactions) == ('{"a note": 1}', {"s/lake": 7 << 32})


def test_a_table_is_made_also_where_a_killed_start_left_something(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    (tmp_path / "table" / "_delta_log" / ".00000000000000000000.json.1234.tmp").write_text("half")
    for _ in range(2):  # and a second time nothing happens to it
        make_table(spark, str(tmp_path / "table"), spark.range(1).schema, [])
    table = DeltaTable(tmp_path / "table")
    assert table.to_pyarrow_table().num_rows == 0
    assert table.metadata().configuration == {"delta.checkpointInterval": "50"}


def test_a_commit_without_rows_is_a_commit(spark: SparkSession, table: str) -> None:
    version = DeltaTransaction(spark, table, "s/lake").commit(1, "fence")
    assert DeltaLog(table).commit(version).user_metadata == "fence"


def test_a_commit_of_the_same_application_in_between_is_refused(spark: SparkSession, table: str) -> None:
    """With a lower or a higher version, with rows or without."""
    older = DeltaTransaction(spark, table, "s/lake")
    older.write(spark.range(10).selectExpr("id", "id % 3 AS part"))
    DeltaTransaction(spark, table, "s/lake").commit(2 << 32, "fence")
    with pytest.raises(ConcurrentTransactionException):
        older.commit(1 << 32, "batch")
    assert DeltaTable(table).to_pyarrow_table().num_rows == 0


def test_what_others_append_or_compact_in_between_does_not_matter(spark: SparkSession, table: str) -> None:
    ours = DeltaTransaction(spark, table, "s/lake")
    ours.write(spark.range(10).selectExpr("id", "id % 3 AS part"))
    DeltaTransaction(spark, table, "other/lake").commit(9 << 32, "another stream")
    spark.range(5).selectExpr("id", "id % 3 AS part").write.format("delta").mode("append").save(table)
    ours.commit(1 << 32, "batch")
    assert DeltaTable(table).to_pyarrow_table().num_rows == 15
