"""Data files that a table names but that are gone from its folder, with the offsets they held. Asked when a scan has failed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from include.contract.places import Place

TOLD = 10


@contextmanager
def told_if_lost(place: Place, version: int, findings: list[str]) -> Iterator[None]:
    """A scan that fails because of them ends with findings. Any other failure goes on."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        lost = lost_files(DeltaTable(str(place), version=version))
        if not lost:
            raise
        findings += lost
        print(f"the table cannot be read: {str(error).splitlines()[0]}")


def lost_files(table: DeltaTable) -> list[str]:
    actions: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    gone = [action for action in actions if not (Path(table.table_uri.removeprefix("file://")) / action["path"]).exists()]
    return [_told(action) for action in gone[:TOLD]]


def _told(action: dict[str, Any]) -> str:
    rows, partition = action.get("num_records"), action.get("min._partition")
    held = (
        f"offsets {action.get('min._offset'):,} to {action.get('max._offset'):,}" if action.get("min._offset") is not None else ""
    )
    where = f" of partition {partition}" if partition is not None and partition == action.get("max._partition") else ""
    return f"data file {action['path']} is gone: it held {rows} rows, {held}{where}"
