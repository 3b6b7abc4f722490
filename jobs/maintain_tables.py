"""Keeps the Delta tables of streams small and quick: sinks in the lake and quarantines, one after the other.

Submitted by `maintain_tables`. A table that fails does not keep the others from their turn; they are named at the end.
"""

import argparse
import sys
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from include.contract.catalog import find_stream, read_catalog
from include.contract.environment import Maintenance, load_environment
from include.contract.errors import TidemarkError
from include.contract.places import Places
from jobs.failpoints import check_failpoint
from jobs.maintenance.maintain import maintain, plan, why_left_alone
from jobs.maintenance.tables import MaintainedTable, tables_of
from jobs.session import open_session

ALL, DRY_RUN = "all", "dry_run"


class TablesNotMaintained(TidemarkError):
    """Some tables could not be maintained."""


def main(arguments: list[str]) -> None:
    check_failpoint()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", help=f"its name, or {ALL}")
    parser.add_argument("how", choices=["maintain", DRY_RUN])
    wanted = parser.parse_args(arguments)
    tables = list(tables_of_streams(wanted.stream))
    maintain_tables(open_session("maintain tables"), tables, load_environment().maintenance, dry_run=wanted.how == DRY_RUN)


def tables_of_streams(name: str) -> Iterator[MaintainedTable]:
    environment = load_environment()
    for stream in read_catalog().streams.values() if name == ALL else [find_stream(name)]:
        yield from tables_of(stream, Places.of(stream, environment))


def maintain_tables(spark: SparkSession, tables: list[MaintainedTable], sizes: Maintenance, *, dry_run: bool) -> None:
    failed: list[str] = []
    for number, table in enumerate(tables, 1):
        print(f"{number} of {len(tables)}: {table.name}", flush=True)
        try:
            print(_maintain(spark, table, sizes, dry_run=dry_run), flush=True)
        except (TidemarkError, PySparkException, OSError) as error:
            print(f"{table.name}: failed, {error}", flush=True)
            failed.append(table.name)
    if failed:
        raise TablesNotMaintained(
            f"{len(failed)} of {len(tables)} tables could not be maintained: {', '.join(failed)}.",
            state="What was committed before each failure is whole; the other tables are done.",
            next_step="The lines above say what stood against each; mend it, or wait for the next night.",
        )


def _maintain(spark: SparkSession, table: MaintainedTable, sizes: Maintenance, *, dry_run: bool) -> str:
    if why := why_left_alone(table):
        return f"{table.name}: left alone, {why}"
    return plan(spark, table, sizes) if dry_run else maintain(spark, table, sizes).line()


if __name__ == "__main__":
    main(sys.argv[1:])
