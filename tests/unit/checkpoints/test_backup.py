"""A backup is consistent, hashed, and ready only at the end; it comes back as it was, and goes only when it is ours and old."""

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from include.checkpoints import backup as backing
from include.checkpoints import rehearse as rehearsing
from include.checkpoints.about import ABOUT, About, read_about
from include.checkpoints.backup import (
    Backup,
    BackupDamaged,
    NothingToBackUp,
    list_backups,
    make_backup,
    restore_backup,
    verify_backup,
)
from include.checkpoints.backup_expiry import expire_backups
from include.checkpoints.care import CheckpointCare
from include.checkpoints.carry_over import carry_over
from include.checkpoints.examine import examine
from include.checkpoints.rehearse import rehearse
from include.checkpoints.seed import check_ready
from tests.unit.checkpoints.stateful_folder import TOPIC, add_batch, contents, stateful_folder

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
WEEK = timedelta(days=7)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return stateful_folder(tmp_path / "totals" / "c000007", 6, more={ABOUT: About("a hash").to_json()})


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups" / "totals"


@pytest.fixture
def backup(checkpoint: Path, backups: Path) -> Backup:
    return make_backup(checkpoint, backups, TOPIC, {"stream": "totals", "sinks": {"lake": {"0": 60}}})


def made_at(backups: Path, backup: Backup, at: datetime) -> Path:
    """A copy of a backup under the name of another time."""
    return Path(shutil.copytree(backup.folder, backups / f"b{at:%Y%m%dT%H%M%SZ}-c000007"))


def test_a_backup_is_a_copy_with_hashes_and_the_tidemark_beside_it(backup: Backup, checkpoint: Path) -> None:
    assert backup.tidemark["checkpoint"] | {"taken_at": ""} == {
        **{"generation": 7, "batch": 5, "ends": {"0": 60}, "watermark_ms": 60_000, "taken_at": ""},
    }
    assert backup.tidemark["sinks"] == {"lake": {"0": 60}}
    assert not (backup.folder / "metadata").samefile(checkpoint / "metadata")
    recorded = json.loads((backup.folder / "READY").read_bytes())
    assert set(recorded) == set(contents(backup.folder)) - {"READY"}
    verify_backup(backup)
    assert [folder.name for folder in backup.folder.parent.iterdir()] == [backup.folder.name]


def test_a_backup_can_be_looked_through_and_carried_over_as_it_lies_there(backup: Backup, tmp_path: Path) -> None:
    """So that a start plan treats it like the folder of an earlier generation."""
    found = examine(backup.folder, TOPIC)
    assert found.damages == ()
    assert found.whole is not None
    about = read_about(backup.folder)
    assert about is not None
    assert about.state_hash == "a hash"
    carry_over(backup.folder, tmp_path / "c000008", found.whole.batch, {ABOUT: About("a hash", backup.folder.name).to_json()})
    assert examine(tmp_path / "c000008", TOPIC) == found
    assert not (tmp_path / "c000008" / "tidemark.json").exists()
    verify_backup(backup)


def test_it_ends_at_the_newest_whole_batch(checkpoint: Path, backups: Path) -> None:
    before = contents(checkpoint)
    (checkpoint / "state" / "0" / "0" / "6.changelog").unlink()
    made = make_backup(checkpoint, backups, TOPIC, {})
    assert made.tidemark["checkpoint"]["batch"] == 4
    assert not (made.folder / "offsets" / "5").exists()
    assert contents(checkpoint) == {name: content for name, content in before.items() if name != "state/0/0/6.changelog"}


def test_a_folder_without_a_whole_batch_is_not_backed_up(
    checkpoint: Path, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backing, "PAUSE_SECONDS", 0)
    (checkpoint / "metadata").unlink()
    with pytest.raises(NothingToBackUp, match=r"No batch in .*c000007 is whole. metadata is missing."):
        make_backup(checkpoint, backups, TOPIC, {})
    assert list_backups(backups) == []


def test_a_backup_that_is_killed_is_none(checkpoint: Path, backups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(backing, "_all_hashes", die)  # all is copied, READY is not written
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # and nothing is cleared away
    with pytest.raises(KeyboardInterrupt):
        make_backup(checkpoint, backups, TOPIC, {})
    assert len(list(backups.iterdir())) == 1
    assert list_backups(backups) == []


def test_a_restored_backup_is_whole_and_says_by_which_file_it_was_made(backup: Backup, tmp_path: Path) -> None:
    assert restore_backup(backup, tmp_path / "c000008") == 5
    check_ready(tmp_path / "c000008")
    found = examine(tmp_path / "c000008", TOPIC)
    assert found.damages == ()
    assert found.whole is not None
    assert found.whole.batch == 5
    about = read_about(tmp_path / "c000008")
    assert about is not None
    assert about.state_hash == "a hash"
    assert not (tmp_path / "c000008" / "metadata").samefile(backup.folder / "metadata")


@pytest.mark.parametrize("how", ["changed", "missing", "added", "no READY"])
def test_a_damaged_backup_is_never_restored(backup: Backup, tmp_path: Path, how: str) -> None:
    file = backup.folder / "state" / "0" / "0" / "_metadata" / "schema"
    if how == "changed":
        file.write_bytes(b"v3 Columns")
    elif how == "added":
        (file.parent / "more").write_bytes(b"x")
    else:
        (file if how == "missing" else backup.folder / "READY").unlink()
    with pytest.raises(BackupDamaged, match=r"schema|READY|more"):
        restore_backup(backup, tmp_path / "c000008")
    assert not (tmp_path / "c000008").exists()


def test_a_rehearsal_tells_the_true_recovery_point_and_leaves_nothing(backup: Backup, backups: Path) -> None:
    before = contents(backups)
    point = rehearse(backups, TOPIC, backups)
    assert point is not None
    assert point.sentence == (
        f"{backup.folder.name} was restored and is whole: a stream would go on after batch 5 of generation 7"
        " (next offsets 0: 60; watermark 1970-01-01 00:01:00 UTC); it is 0 minutes old."
    )
    assert contents(backups) == before
    assert [folder.name for folder in backups.iterdir()] == [backup.folder.name]


def test_a_rehearsal_with_a_damaged_backup_fails_and_leaves_nothing(backup: Backup, backups: Path) -> None:
    (backup.folder / "offsets" / "5").write_bytes(b"torn")
    with pytest.raises(BackupDamaged, match="offsets/5 is not as it was copied"):
        rehearse(backups, TOPIC, backups)
    assert [folder.name for folder in backups.iterdir()] == [backup.folder.name]


def test_a_rehearsal_looks_at_what_came_back(backup: Backup, backups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore that leaves a file out must not pass for a recovery."""
    restore = rehearsing.restore_backup

    def restore_badly(backup: Backup, target: Path) -> int:
        batch = restore(backup, target)
        (target / "state" / "0" / "1" / "6.changelog").unlink()
        return batch

    monkeypatch.setattr(rehearsing, "restore_backup", restore_badly)
    with pytest.raises(BackupDamaged, match=r"not whole through batch 5: state/0/1/6.changelog is missing"):
        rehearse(backups, TOPIC, backups)


def test_by_count_and_age_never_the_newest_and_only_ours(backup: Backup, backups: Path) -> None:
    old = [made_at(backups, backup, NOW - timedelta(days=days)) for days in (8, 9, 10)]
    shutil.rmtree(backup.folder)
    young = [made_at(backups, backup := Backup(old[0], NOW, 7), NOW - timedelta(hours=hours)) for hours in (1, 2)]
    (unready := made_at(backups, backup, NOW - timedelta(days=30)) / "READY").unlink()
    foreign = backups / "my copy"
    shutil.copytree(old[0], foreign)
    (elsewhere := backups.parent / "elsewhere").mkdir()
    (backups / f"b{NOW - timedelta(days=40):%Y%m%dT%H%M%SZ}-c000001").symlink_to(elsewhere)
    gone = expire_backups(backups, keep=3, keep_for=WEEK, now=NOW)
    assert [each.folder for each in gone] == old[1:]
    assert all(folder.exists() for folder in (*young, old[0], unready.parent, foreign, elsewhere))
    assert list((backups / "expired").iterdir()) == []
    assert [each.folder for each in expire_backups(backups, keep=1, keep_for=timedelta(0), now=NOW)] == [young[1], old[0]]
    assert expire_backups(backups, keep=0, keep_for=timedelta(0), now=NOW) == []


def test_a_clock_that_was_wrong_makes_no_backup_the_newest(backup: Backup, backups: Path) -> None:
    ahead = backups / "b20300101T000000Z-c000006"
    shutil.copytree(backup.folder, ahead)
    assert [each.folder for each in list_backups(backups)] == [backup.folder, ahead]


def test_what_was_left_unfinished_goes_after_a_day(backup: Backup, backups: Path) -> None:
    now = datetime.now(UTC)
    for name, days in (
        (".b20261101T000000Z-c000001.0123abcd.unfinished", 2),
        (".rehearsal-abc_12xy", 2),
        (".rehearsal-abcdefgh", 0),
    ):
        (backups / name).mkdir()
        written_at = (now - timedelta(days=days)).timestamp()
        os.utime(backups / name, (written_at, written_at))
    (backups / "expired" / "not ours").mkdir(parents=True)
    expire_backups(backups, 1, WEEK)
    assert {folder.name for folder in backups.iterdir()} == {backup.folder.name, ".rehearsal-abcdefgh", "expired"}
    assert [folder.name for folder in (backups / "expired").iterdir()] == ["not ours"]


def care_of(checkpoints: Path, backups: Path, state_hash: str = "a hash", shuffle_partitions: int = 2) -> CheckpointCare:
    return CheckpointCare("totals", TOPIC, 1, state_hash, shuffle_partitions, checkpoints, backups, 24, WEEK)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (("another hash", 2), "its state was made by another stream file"),
        (("a hash", 4), "its state lies in 2 shuffle partitions, the environment says 4"),
    ],
    ids=["another file", "other partitions"],
)
def test_a_rehearsal_says_when_no_start_would_go_on_from_it(
    checkpoint: Path, backups: Path, wanted: tuple[str, int], why: str
) -> None:
    told = care_of(checkpoint.parent, backups, *wanted).run().lines[1]
    assert f"it is 0 minutes old. But no start goes on from it any more: {why}" in told


def test_care_backs_up_rehearses_and_copies_nothing_twice(checkpoint: Path, backups: Path) -> None:
    care = care_of(checkpoint.parent, backups)
    first = care.run()
    assert first.failures == ()
    assert first.lines[0].startswith("totals: c000007 was backed up through batch 5 as b")
    assert "a stream would go on after batch 5" in first.lines[1]
    assert first.lines[2] == "totals: 0 backups expired, 1 are kept."
    assert "has not moved since b" in care.run().lines[0]
    (made,) = list_backups(backups)
    made.folder.rename(backups / "b20261101T000000Z-c000007")
    add_batch(checkpoint, 6)
    assert "through batch 6" in care.run().lines[0]
    assert len(list_backups(backups)) == 2


def test_care_of_a_damaged_checkpoint_still_rehearses(
    checkpoint: Path, backup: Backup, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backing, "PAUSE_SECONDS", 0)
    (checkpoint / "metadata").unlink()
    cared = care_of(checkpoint.parent, backups).run()
    assert len(cared.failures) == 1
    assert "metadata is missing" in cared.failures[0]
    assert f"{backup.folder.name} was restored and is whole" in cared.lines[0]


def test_care_of_a_stream_that_never_ran_has_nothing_to_do(tmp_path: Path) -> None:
    cared = care_of(tmp_path / "none", tmp_path / "backups").run()
    assert cared.failures == ()
    assert "no checkpoint to back up yet" in cared.lines[0]
    assert "no backup to rehearse with yet" in cared.lines[1]
