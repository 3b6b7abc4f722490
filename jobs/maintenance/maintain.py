"""One table, from first to last: 1. left alone unless its tidemark stands and nobody changed its rows; 2. the tidemark repeated;
3. old deletes purged; 4. small files and marked rows compacted; 5. files that are no longer needed removed.
"""

import time
from dataclasses import dataclass

from pyspark.sql import SparkSession

from include.contract.environment import Maintenance
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.note import Note
from jobs.delta_maintenance import MaintenanceTransaction
from jobs.maintenance.choosing import TableFile
from jobs.maintenance.compaction import Compaction
from jobs.maintenance.purge import Purge
from jobs.maintenance.repeat import is_old, repeat_tidemark
from jobs.maintenance.tables import MaintainedTable, maintain_note
from jobs.maintenance.vacuum import vacuum


@dataclass(frozen=True)
class Size:
    files: int
    bytes: int

    @classmethod
    def of(cls, files: list[TableFile]) -> "Size":
        return cls(len(files), sum(file.bytes for file in files))

    def __str__(self) -> str:
        return f"{self.files:,} files ({self.bytes / 1e6:,.1f} MB)"


@dataclass(frozen=True)
class Maintained:
    """What became of one table."""

    table: str
    before: Size
    after: Size
    commits: int
    rows_purged: int
    files_vacuumed: int
    is_repeated: bool
    seconds: float

    def line(self) -> str:
        repeated = ", tidemark repeated" if self.is_repeated else ""
        return (
            f"{self.table}: {self.before} -> {self.after} in {self.commits} commits, {self.rows_purged:,} rows purged, "
            f"{self.files_vacuumed:,} files vacuumed{repeated}, {self.seconds:.1f} s"
        )


def maintain(spark: SparkSession, table: MaintainedTable, sizes: Maintenance) -> Maintained:
    """Of a table that is not left alone."""
    began = time.monotonic()
    before = Size.of(_files(spark, table))
    is_repeated = repeat_tidemark(spark, table)  # 2
    rows_purged = Purge(spark, table, sizes, lambda: _note(table)).run()  # 3
    compaction = Compaction(spark, table, sizes, lambda: _note(table))
    commits = compaction.rewrite(compaction.choose(_files(spark, table)))  # 4
    files_vacuumed = vacuum(spark, table.path, sizes)  # 5
    after = Size.of(_files(spark, table))
    seconds = time.monotonic() - began
    return Maintained(table.name, before, after, commits, rows_purged, files_vacuumed, is_repeated, seconds)


def plan(spark: SparkSession, table: MaintainedTable, sizes: Maintenance) -> str:
    """What `maintain` would do, in a line."""
    files = _files(spark, table)
    groups = Compaction(spark, table, sizes, lambda: _note(table)).choose(files)
    chosen = Size.of([file for group in groups for file in group])
    repeat = ", and repeat the tidemark" if is_old(DeltaLog(table.path), table.state()) else ""
    return f"{table.name}: {Size.of(files)}; would rewrite {chosen} in {len(groups)} commits{repeat}"


def why_left_alone(table: MaintainedTable) -> str:  # 1
    if DeltaLog(table.path).newest_version() is None:
        return "it is not there yet"
    state = table.state()
    if state.tidemark is None:
        return "it has no tidemark"
    if state.changes:
        return f"the stream must stop on it first: {state.changes[0].in_(table.path)}"
    return ""


def _note(table: MaintainedTable) -> Note:
    return maintain_note(table.state())


def _files(spark: SparkSession, table: MaintainedTable) -> list[TableFile]:
    return MaintenanceTransaction(spark, table.path).files()
