"""Checkpoint folders leave their place whole, and only when no start and no driver can need them."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from include.housekeeping import checkpoints
from include.housekeeping.checkpoints import sweep_checkpoints
from include.housekeeping.in_use import InUse
from include.housekeeping.swept import NotAllRemoved
from tests.running import PROJECT
from tests.unit.housekeeping.trial import aged, aged_checkpoint, make_old

WEEK = timedelta(days=7)
IN_USE = InUse({"orders": 9}, frozenset({("orders", 5)}), frozenset())


def below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.glob("*/*")}


def test_only_old_folders_of_generations_that_are_over_go(tmp_path: Path) -> None:
    aged_checkpoint(tmp_path / "orders" / "c000003", days=8)
    aged(tmp_path / "orders" / ".c000004.unfinished" / "metadata", days=8)
    kept = [
        aged_checkpoint(tmp_path / "orders" / "c000005", days=8),  # its driver may live
        aged_checkpoint(tmp_path / "orders" / "c000006", days=6),
        aged_checkpoint(tmp_path / "orders" / "c000009", days=400),
        aged_checkpoint(tmp_path / "orders" / "c000010", days=400),  # the control database was put back to an older state
        aged_checkpoint(tmp_path / "unknown" / "c000001", days=400),
        aged_checkpoint(tmp_path / "orders" / "my copy", days=400),
    ]
    swept = sweep_checkpoints(tmp_path, IN_USE, WEEK, dry_run=False)
    assert below(tmp_path) == {*(str(folder.relative_to(tmp_path)) for folder in kept), "orders/expired"}
    assert list((tmp_path / "orders" / "expired").iterdir()) == []
    assert (swept.removed, swept.bytes, swept.failures) == (2, 500, ())
    line = swept.line(dry_run=False)
    assert line.startswith("checkpoint folders: 2 removed (500 B); kept: 2 of the newest generation or a later one, 1 ")
    assert "1 younger than the retention" in line


def test_a_folder_is_as_old_as_its_newest_file(tmp_path: Path) -> None:
    """A batch writes files; folders become young by a removal that was killed half-way."""
    for name, days in (("c000001", 8), ("c000002", 6)):
        folder = aged_checkpoint(tmp_path / "orders" / name, days=9)
        aged(folder / "commits" / "1", days)
        make_old(folder, 400)
    sweep_checkpoints(tmp_path, IN_USE, WEEK, dry_run=False)
    assert below(tmp_path) == {"orders/c000002", "orders/expired"}


def test_the_newest_that_a_start_may_go_on_from_stays(tmp_path: Path) -> None:
    """Generation 9 was taken, but its folder never made; that of 4 was not made to its end, that of 3 is marked as damaged."""
    for name in ("c000001", "c000002", "c000003", ".c000004.unfinished"):
        folder = aged_checkpoint(tmp_path / "orders" / name, days=8)
        aged(folder / "READY", days=8)
    aged(tmp_path / "orders" / "c000003" / "DAMAGED", days=8)
    swept = sweep_checkpoints(tmp_path, IN_USE, WEEK, dry_run=False)
    assert below(tmp_path) == {"orders/c000002", "orders/expired"}
    assert swept.line(dry_run=False).endswith("kept: 1 from which the next start may go on")


def test_what_a_link_points_to_is_not_ours(tmp_path: Path) -> None:
    elsewhere = aged_checkpoint(tmp_path / "elsewhere", days=8)
    (tmp_path / "root" / "orders").mkdir(parents=True)
    (tmp_path / "root" / "orders" / "c000003").symlink_to(elsewhere)
    assert sweep_checkpoints(tmp_path / "root", IN_USE, WEEK, dry_run=False).removed == 0
    assert (tmp_path / "root" / "orders" / "c000003" / "metadata").exists()


def test_a_dry_run_removes_nothing(tmp_path: Path) -> None:
    aged_checkpoint(tmp_path / "orders" / "c000003", days=8)
    aged_checkpoint(tmp_path / "orders" / "expired" / "c000002.abc", days=8)
    swept = sweep_checkpoints(tmp_path, IN_USE, WEEK, dry_run=True)
    assert swept.line(dry_run=True) == "checkpoint folders: 2 would be removed (800 B); kept: none"
    assert (tmp_path / "orders" / "c000003" / "commits" / "0").exists()
    assert (tmp_path / "orders" / "expired" / "c000002.abc" / "commits" / "0").exists()


def test_a_run_killed_after_the_rename_leaves_a_whole_folder_that_the_next_one_removes(tmp_path: Path) -> None:
    aged_checkpoint(tmp_path / "orders" / "c000003", days=8)
    code = (
        "import os, signal; from datetime import timedelta; from pathlib import Path;"
        "from include.housekeeping import checkpoints; from include.housekeeping.in_use import InUse;"
        "checkpoints.remove = lambda path: os.kill(os.getpid(), signal.SIGKILL);"
        f"checkpoints.sweep_checkpoints(Path({str(tmp_path)!r}), InUse({{'orders': 9}}, frozenset(), frozenset()),"
        " timedelta(days=7), dry_run=False)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT, check=False).returncode == -9
    assert not (tmp_path / "orders" / "c000003").exists()
    (left,) = (tmp_path / "orders" / "expired").iterdir()
    assert len([file for file in left.rglob("*") if file.is_file()]) == 4
    assert sweep_checkpoints(tmp_path, IN_USE, WEEK, dry_run=False).removed == 1
    assert not left.exists()


def test_the_same_number_may_expire_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "remove", lambda path: None)
    for _ in range(2):
        aged_checkpoint(tmp_path / "orders" / "c000003", days=8)
        assert sweep_checkpoints(tmp_path, IN_USE, WEEK, dry_run=False).failures == ()
    assert len(list((tmp_path / "orders" / "expired").iterdir())) == 2


def test_runs_that_overlap_do_not_disturb_each_other(tmp_path: Path) -> None:
    in_use = InUse({"orders": 500}, frozenset(), frozenset())
    for number in range(1, 120):
        aged_checkpoint(tmp_path / "orders" / f"c{number:06d}", days=8)
    kept = aged_checkpoint(tmp_path / "orders" / "c000500", days=8)
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(sweep_checkpoints, tmp_path, in_use, WEEK, dry_run=False) for _ in range(4)]
    assert [run.result().failures for run in runs] == [()] * 4
    assert below(tmp_path) == {"orders/c000500", "orders/expired"}
    assert len([file for file in kept.rglob("*") if file.is_file()]) == 4


def test_one_that_cannot_be_removed_is_named_and_the_others_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("c000001", "c000002"):
        aged_checkpoint(tmp_path / "orders" / name, days=8)
    rename = Path.rename

    def refuse_one(path: Path, target: Path) -> Path:
        if path.name == "c000001":
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse_one)  # tests may run as root, whom no permission stops
    swept = sweep_checkpoints(tmp_path, IN_USE, WEEK, dry_run=False)
    assert below(tmp_path) == {"orders/c000001", "orders/expired"}
    assert swept.removed == 1
    with pytest.raises(NotAllRemoved, match=r"1 checkpoint folders could not be removed: .*c000001: Permission denied"):
        swept.check()


def test_a_root_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert "0 removed (0 B); kept: none" in sweep_checkpoints(tmp_path / "none", IN_USE, WEEK, dry_run=False).line(dry_run=False)
