"""Harms the table behind the stream's back, so that reconciliation has something to find: `make demo SABOTAGE=delete_row`."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

PARTITION, OFFSET = 2, 1_234
SKIPPED = 500


def delete_row(table: Path) -> None:
    DeltaTable(table).delete(f"_partition = {PARTITION} AND _offset = {_offset(table)}")


def duplicate_row(table: Path) -> None:
    there = DeltaTable(table).to_pyarrow_dataset()
    is_it = (pc.field("_partition") == PARTITION) & (pc.field("_offset") == _offset(table))
    write_deltalake(table, there.to_table(filter=is_it), mode="append")


def skip_range(table: Path) -> None:
    """As if a driver had begun too late."""
    first = _offset(table)
    DeltaTable(table).delete(f"_partition = {PARTITION} AND _offset >= {first} AND _offset < {first + SKIPPED}")


def _offset(table: Path) -> int:
    """The first from there on that has a row: others were broken or filtered."""
    rows = DeltaTable(table).to_pyarrow_table(columns=["_partition", "_offset"]).to_pylist()
    return min(int(row["_offset"]) for row in rows if row["_partition"] == PARTITION and row["_offset"] >= OFFSET)


SABOTAGE: dict[str, Callable[[Path], None]] = {
    "delete_row": delete_row,
    "duplicate_row": duplicate_row,
    "skip_range": skip_range,
}
