"""Few files instead of many: rows as they are, marked ones left out, sorted so that each file has a narrow range.

In our own transaction and not by OPTIMIZE, whose commit would not hold the commit lock: two JVMs could replace each other's.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from include.contract.environment import Maintenance
from include.contract.errors import TidemarkError
from include.tidemarks.note import Note
from jobs.delta_maintenance import MaintenanceTransaction
from jobs.failpoints import Failpoint, reach
from jobs.maintenance.choosing import Limit, TableFile, files_to_make, groups_to_rewrite
from jobs.maintenance.tables import MaintainedTable
from jobs.maintenance.turns import commit_in_turns


class RowsDiffer(TidemarkError):
    """The new files do not hold as many rows as the old ones."""


class Compaction:
    def __init__(self, spark: SparkSession, table: MaintainedTable, sizes: Maintenance, note: Callable[[], Note]) -> None:
        self._spark = spark
        self._table = table
        self._sizes = sizes
        self._note = note

    def choose(self, files: list[TableFile]) -> list[list[TableFile]]:
        return groups_to_rewrite(files, self._sizes.file_size, Limit(self._sizes.commit_size))

    def rewrite(self, groups: list[list[TableFile]]) -> int:
        """The number of commits. What a live stream adds meanwhile is for the next night, so this ends."""
        commits = 0
        for number, group in enumerate(groups, 1):
            megabytes = sum(file.bytes for file in group) / 1e6
            print(f"  {self._table.name}: {number} of {len(groups)}, {len(group):,} files of {megabytes:,.1f} MB", flush=True)
            commits += commit_in_turns(self._spark, self._table, group, self._rewrite)
        return commits

    def _rewrite(self, group: list[TableFile]) -> int | None:
        """Chosen anew in each turn: as the files stand now."""
        transaction = MaintenanceTransaction(self._spark, self._table.path)
        there = {file.path for file in group}
        files = [file for file in transaction.files() if file.path in there]
        if not files or (len(files) == 1 and not files[0].has_many_marked):
            return None
        taken = transaction.take(files)
        rows = transaction.rows_of(taken)
        expected = sum(file.rows - file.marked if file.rows is not None else 0 for file in files)
        if any(file.rows is None for file in files):
            expected = rows.count()
        transaction.replace(taken, self._sorted(rows, transaction.partition_by, sum(file.bytes for file in files)))
        self._check(transaction.rows_written, expected)
        reach(Failpoint.BEFORE_MAINTENANCE)
        return transaction.commit_files(self._note().to_json())

    def _sorted(self, rows: DataFrame, partition_by: tuple[str, ...], total_bytes: int) -> DataFrame:
        columns = list(dict.fromkeys((*partition_by, *self._table.cluster_by)))
        return rows.repartitionByRange(files_to_make(total_bytes, self._sizes.file_size), *columns).sortWithinPartitions(*columns)

    def _check(self, written: int, expected: int) -> None:
        if written != expected:
            raise RowsDiffer(
                f"{self._table.path}: {expected:,} rows were to be rewritten, but the new files hold {written:,}.",
                state="Nothing was committed; the table is as it was.",
                next_step="Keep the task's log and report it: this must not happen.",
            )
