"""Removes drivers' logs of generations that are over, and of launches that never took one."""

import time
from datetime import timedelta
from pathlib import Path

from include.contract.identity import log_generation, log_launch
from include.housekeeping.in_use import Found, InUse, Reason, why_keep
from include.housekeeping.swept import Swept, tell
from include.housekeeping.trees import Tree, folders_in, for_each, measure_all, remove


def sweep_driver_logs(root: Path, in_use: InUse, retention: timedelta, *, dry_run: bool) -> Swept:
    """`root` holds a folder per stream."""
    before = time.time() - retention.total_seconds()
    files = measure_all(file for stream in folders_in(root) for file in stream.iterdir() if file.is_file())
    reasons = {tree.path: _why_keep(tree, in_use, before) for tree in files}
    chosen = [tree for tree in files if reasons[tree.path] is None]
    failures = () if dry_run else for_each([tree.path for tree in chosen], remove)
    return Swept(
        "driver logs",
        len(chosen) - len(failures),
        tell(reason for reason in reasons.values() if reason is not None),
        sum(tree.bytes for tree in chosen),
        failures,
    )


def _why_keep(file: Tree, in_use: InUse, before: float) -> Reason | None:
    name, stream = file.path.name, file.path.parent.name
    return why_keep(Found(stream, file.written_at, log_generation(name), log_launch(name)), in_use, before)
