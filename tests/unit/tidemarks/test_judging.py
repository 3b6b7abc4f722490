"""Which commits of others stop a stream: judged by what was done, not by its name."""

import json
from pathlib import Path
from typing import Any

import pytest

from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.sink_state import judge

REMOVE = {"remove": {"path": "a.parquet", "dataChange": True}}
REWRITE = {"remove": {"path": "a.parquet", "dataChange": False}}
ADD = {"add": {"path": "b.parquet", "dataChange": True}}
CASES: dict[str, tuple[str, list[dict[str, Any]], str | None]] = {
    "append": ("WRITE", [ADD], None),
    "overwrite": ("WRITE", [REMOVE, ADD], "removed 1 files with their rows"),
    "delete": ("DELETE", [REMOVE, REMOVE], "removed 2 files with their rows"),
    "insert-only merge": ("MERGE", [ADD], None),
    "updating merge": ("MERGE", [REMOVE, ADD], "removed 1 files with their rows"),
    "compaction": ("OPTIMIZE", [REWRITE, ADD], None),
    "vacuum begins": ("VACUUM START", [], None),
    "vacuum ends": ("VACUUM END", [], None),
    "a new column": ("ADD COLUMNS", [{"metaData": {"id": "same"}}], None),
    "a table property": ("SET TBLPROPERTIES", [{"metaData": {"id": "same"}}], None),
    "made anew": ("CREATE OR REPLACE TABLE", [{"metaData": {"id": "other"}}], "made the table anew"),
    "restore without files": ("RESTORE", [], "went back to an earlier version"),
}


@pytest.mark.parametrize("name", list(CASES))
def test_the_judgement_of(name: str, tmp_path: Path) -> None:
    operation, actions, judgement = CASES[name]
    (tmp_path / "_delta_log").mkdir()
    lines = [{"commitInfo": {"operation": operation}}, *actions]
    (tmp_path / "_delta_log" / f"{4:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    change = judge(DeltaLog(str(tmp_path)).commit(4), "s", "lake")
    assert (change.what if change else None) == judgement
