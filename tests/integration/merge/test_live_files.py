"""Which files a merge reads: never too few, whatever the kind of its key; and few, where statistics or partitions tell. And the
list of files is what Delta says, whatever happened to the table.
"""

import random
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from include.contract.stream_spec import DeltaMerge
from include.tidemarks.delta_log import DeltaLog
from jobs.delta_transaction import DeltaTransaction
from jobs.key_spans import files_with_keys
from jobs.live_files import LiveFile, LiveFiles

ROWS, FILES = 400, 8
KINDS = {
    "long texts": "concat(repeat('é', cast(id % 50 as int)), '😀', id)",
    "bigint": "id * 1000003 - 200000000",
    "date, also after 9999": "date_add(date'9990-01-01', cast(id * 30 as int))",
    "timestamps within a millisecond": "timestamp_micros(1700000000000000 + id * 7)",
    "timestamp, also after 9999": "timestamp'9990-01-01 00:00:00' + make_dt_interval(cast(id * 30 as int))",
    "decimal(38,6)": "cast(id * 1.000001 - 100 as decimal(38,6))",
}
WITHOUT_ORDER_IN_FILES = {"boolean": "id % 2 = 0", "double": "cast(id as double)"}


def _written(spark: SparkSession, path: Path, expression: str, partition_by: list[str]) -> list[Row]:
    """Rows in the order of their keys: key as text, the name of the file."""
    rows = spark.range(ROWS).select(F.expr(expression).alias("k"), F.expr("id % 5").alias("other"))
    spread = rows.coalesce(1) if partition_by else rows.repartitionByRange(FILES, "k")
    spread.write.format("delta").partitionBy(*partition_by).save(str(path))
    there = spark.read.format("delta").load(str(path)).orderBy("k")
    return there.select(F.col("k").cast("string").alias("k"), F.col("_metadata.file_name").alias("file")).collect()


def _chosen(frame: DataFrame, files: list[LiveFile], keys: list[Row], partition_by: list[str]) -> set[str]:
    settings = DeltaMerge(kind="delta_merge", table="t", key=["k"], order="other", partition_by=partition_by)
    found = Row(least_k=keys[0].k, greatest_k=keys[-1].k, values_k=sorted({row.k for row in keys}))
    return {Path(file.added["path"]).name for file in files_with_keys(files, settings, frame, found)}


@pytest.mark.parametrize("kind", [*KINDS, *WITHOUT_ORDER_IN_FILES])
@pytest.mark.parametrize("partition_by", [[], ["k"]], ids=["by statistics", "by partition"])
def test_no_file_is_passed_over_that_holds_a_key(spark: SparkSession, tmp_path: Path, kind: str, partition_by: list[str]) -> None:
    expression = {**KINDS, **WITHOUT_ORDER_IN_FILES}[kind]
    if partition_by:
        expression = expression.replace("id", "(id % 6)")
    rows = _written(spark, tmp_path / "t", expression, partition_by)
    transaction = DeltaTransaction(spark, str(tmp_path / "t"), "reader")
    files, frame = list(LiveFiles(DeltaLog(str(tmp_path / "t"))).at(transaction)), transaction.rows_of(transaction._list())
    chance, fewest = random.Random(3), len(files)  # noqa: S311
    for _ in range(100):
        first = chance.randrange(ROWS)
        keys = rows[first : first + chance.randrange(1, 9)]
        chosen = _chosen(frame, files, keys, partition_by)
        assert chosen >= {row.file for row in keys}
        fewest = min(fewest, len(chosen))
    assert (fewest == len(files)) == (kind in WITHOUT_ORDER_IN_FILES)


def test_the_list_is_what_delta_says(spark: SparkSession, tmp_path: Path) -> None:
    """After appends, marks, compaction, a RESTORE, a commit that changes no file, and when the table was made anew."""
    path = str(tmp_path / "t")
    live = LiveFiles(DeltaLog(path))

    def append(rows: int) -> None:
        frame = spark.range(rows).withColumn("other", F.col("id") * 2).coalesce(1)
        frame.write.format("delta").option("delta.enableDeletionVectors", "true").mode("append").save(path)

    def compare() -> int:
        transaction = DeltaTransaction(spark, path, "reader")
        mine = {file.added["path"]: file.added.get("deletionVector") for file in live.at(transaction)}
        delta = {file["path"]: file.get("deletionVector") for file in transaction.all_files()}
        assert {path: mark and mark["pathOrInlineDv"] for path, mark in mine.items()} == {
            path: mark and mark["pathOrInlineDv"] for path, mark in delta.items()
        }
        return len(mine)

    append(100)
    append(200)
    assert compare() == 2
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 7")
    table.delete("id = 8")
    assert compare() == 2
    append(10)
    table.optimize().executeCompaction()
    assert compare() == 1
    table.restoreToVersion(1)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('a' = 'b')")
    assert compare() == 2
    (tmp_path / "t").rename(tmp_path / "old")
    for _ in range(12):
        append(1)
    assert compare() == 12
