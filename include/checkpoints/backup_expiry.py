"""Which backups go, by count and age, and their removal. Deletes only folders whose name and READY are ours.

1. those to go are chosen; 2. each is renamed into `expired/`, in one step, so that no half of one is ever taken for a backup;
3. what lies in `expired/` is removed, also what a run left there that was killed after 2.
A folder without READY may be a backup that is being made, or somebody's work: it stays.
"""

import re
import shutil
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from include.checkpoints.backup import Backup, list_backups

EXPIRED = "expired"
OURS = re.compile(r"(b\d{8}T\d{6}Z-c\d{6,}|rehearsal-\w{8})\.[0-9a-f]{8}")
UNFINISHED = re.compile(r"\.b\d{8}T\d{6}Z-c\d{6,}\.[0-9a-f]{8}\.unfinished|\.rehearsal-\w{8}")
ABANDONED = timedelta(days=1)  # either takes minutes: what is a day old was left by one that was killed


def expire_backups(backups: Path, keep: int, keep_for: timedelta, now: datetime | None = None) -> list[Backup]:
    """Keeps the newest `keep`, all younger than `keep_for`, and always the newest. Returns those that went."""
    now = now or datetime.now(UTC)
    gone = choose_expired(list_backups(backups), keep, keep_for, now)  # 1
    expired = backups / EXPIRED
    for backup in gone:
        _move_aside(backup.folder, expired)  # 2
    for folder in _abandoned(backups, now):
        _move_aside(folder, expired)
    for folder in expired.iterdir() if expired.is_dir() else ():
        if OURS.fullmatch(folder.name) and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)  # 3
    return gone


def choose_expired(newest_first: list[Backup], keep: int, keep_for: timedelta, now: datetime) -> list[Backup]:
    return [backup for backup in newest_first[max(keep, 1) :] if now - backup.taken_at > keep_for]


def _abandoned(backups: Path, now: datetime) -> list[Path]:
    before = (now - ABANDONED).timestamp()
    there = backups.iterdir() if backups.is_dir() else ()
    return [each for each in there if UNFINISHED.fullmatch(each.name) and each.lstat().st_mtime < before]


def _move_aside(folder: Path, expired: Path) -> None:
    expired.mkdir(exist_ok=True)
    name = folder.name.removeprefix(".").split(".")[0]
    with suppress(FileNotFoundError):  # another run was quicker
        folder.rename(expired / f"{name}.{uuid.uuid4().hex[:8]}")
