"""Removes checkpoint folders of generations that are over. A stateful start goes on from the newest that is READY (P2): it stays,
also below the newest generation, whose own folder was perhaps never made. What a later folder shares by links outlives this one.

1. folders are chosen: older than the retention, below the newest generation, of no driver that may live;
2. each is renamed into `expired/` beside it, in one step, so that no half of one is ever in a checkpoint's place;
3. everything in `expired/` is removed, also what a run left there that was killed after 2.
"""

import time
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from include.checkpoints.folders import newest_ready
from include.contract.identity import checkpoint_generation
from include.housekeeping.in_use import Found, InUse, why_keep
from include.housekeeping.swept import Swept, tell
from include.housekeeping.trees import Tree, folders_in, for_each, measure_all, remove

EXPIRED = "expired"
GONE_ON_FROM = "from which the next start may go on"


def sweep_checkpoints(root: Path, in_use: InUse, retention: timedelta, *, dry_run: bool) -> Swept:
    """`root` holds a folder per stream."""
    before = time.time() - retention.total_seconds()
    trees = measure_all(folder for stream in folders_in(root) for folder in folders_in(stream) if folder.name != EXPIRED)
    gone_on_from = {newest_ready(stream) for stream in folders_in(root)}
    reasons = {tree.path: _why_keep(tree, in_use, before, gone_on_from) for tree in trees}
    chosen = [tree for tree in trees if reasons[tree.path] is None]  # 1
    left = measure_all(folder for stream in folders_in(root) for folder in folders_in(stream / EXPIRED))
    failures: tuple[str, ...] = ()
    if not dry_run:
        failures += for_each([tree.path for tree in chosen], _move_aside)  # 2
        failures += for_each([each for stream in folders_in(root) for each in folders_in(stream / EXPIRED)], remove)  # 3
    return Swept(
        "checkpoint folders",
        len(chosen) + len(left) - len(failures),
        tell(reason for reason in reasons.values() if reason is not None),
        sum(tree.bytes for tree in (*chosen, *left)),
        failures,
    )


def _why_keep(tree: Tree, in_use: InUse, before: float, gone_on_from: set[Path | None]) -> str | None:
    generation = checkpoint_generation(tree.path.name)
    reason = why_keep(Found(tree.path.parent.name, tree.written_at, generation), in_use, before)
    return GONE_ON_FROM if reason is None and tree.path in gone_on_from else reason


def _move_aside(folder: Path) -> None:
    """Under a name of its own: the same number may be there already, from before the control database was lost."""
    expired = folder.with_name(EXPIRED)
    expired.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):  # another run was quicker
        folder.rename(expired / f"{folder.name}.{uuid.uuid4().hex[:8]}")
