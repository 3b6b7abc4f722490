"""Removes files that the table no longer consists of, when they are old enough that nobody reads or writes them any more.

Delta's own VACUUM: it passes over names that begin with _, such as that of the commit lock, and over what is younger than the
retention, such as the files of a batch under way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from include.contract.environment import Maintenance
from jobs.delta_maintenance import MaintenanceTransaction

SETTINGS = {
    "spark.databricks.delta.vacuum.logging.enabled": "false",  # two commits that would not hold the commit lock
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",  # or the table's own, perhaps shorter, would count
}


def vacuum(spark: SparkSession, path: str, sizes: Maintenance) -> int:
    """How many files were removed. If the table asks for a longer retention, that is kept."""
    kept = max(sizes.keep_removed_files.total_seconds(), MaintenanceTransaction(spark, path).seconds_kept)
    before = _files(path)
    with _set(spark):
        DeltaTable.forPath(spark, path).vacuum(kept / 3600)
    return len(before - _files(path))


@contextmanager
def _set(spark: SparkSession) -> Iterator[None]:
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in SETTINGS:
            spark.conf.unset(name)


def _files(path: str) -> set[Path]:
    return {file for file in Path(path).rglob("*") if file.suffix in (".parquet", ".bin") and "_delta_log" not in file.parts}
