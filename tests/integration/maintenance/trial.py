"""Maintenance of a stream's tables in this process, and what it leaves."""

import os
import time
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.contract.environment import load_environment
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.note import Kind, Note
from jobs.maintain_tables import maintain_tables, tables_of_streams
from tests.streams import TrialStream


def maintain(spark: SparkSession, stream: TrialStream, **changed: Any) -> None:
    """`changed`: sizes other than those of the environment file."""
    with stream.environment():
        sizes = load_environment("local").maintenance.model_copy(update=changed)
        maintain_tables(spark, list(tables_of_streams(stream.name)), sizes, dry_run=False)


def files_of(table: Path) -> set[str]:
    return set(DeltaTable(table).file_uris())


def version_of(table: Path) -> int:
    return DeltaTable(table).version()


def maintain_notes(table: Path) -> list[Note]:
    log = DeltaLog(str(table))
    notes = [log.commit(version).note for version in range(log.oldest_version(), (log.newest_version() or 0) + 1)]
    return [note for note in notes if note is not None and note.kind is Kind.MAINTAIN]


def make_old(files: list[Path], days: int) -> None:
    then = time.time() - days * 86400
    for file in files:
        os.utime(file, (then, then))
