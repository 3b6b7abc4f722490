"""Removes Airflow's own logs: the folder of a DAG run, and the folder of a day of another component."""

import re
import time
from datetime import timedelta
from pathlib import Path

from include.housekeeping.swept import Swept, days, tell
from include.housekeeping.trees import folders_in, for_each, measure_all, remove

A_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def sweep_airflow_logs(root: Path, retention: timedelta, *, dry_run: bool) -> Swept:
    """Below `root` may lie what is not Airflow's, such as drivers' logs: only folders with names of Airflow's are looked at."""
    before = time.time() - retention.total_seconds()
    trees = measure_all(folder for group in folders_in(root) for folder in folders_in(group) if _is_airflows(group, folder))
    chosen = [tree for tree in trees if tree.written_at < before]
    failures = () if dry_run else for_each([tree.path for tree in chosen], remove)
    return Swept(
        "log folders of runs and of days",
        len(chosen) - len(failures),
        tell([f"younger than {days(retention)}"] * (len(trees) - len(chosen))),
        sum(tree.bytes for tree in chosen),
        failures,
    )


def _is_airflows(group: Path, folder: Path) -> bool:
    if group.name.startswith("dag_id="):
        return folder.name.startswith("run_id=")
    return A_DAY.fullmatch(folder.name) is not None
