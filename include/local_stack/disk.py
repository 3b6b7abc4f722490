"""Refuses to begin what the disk cannot hold. Standard library only."""

import shutil
from pathlib import Path

from include.contract.errors import TidemarkError


class DiskFull(TidemarkError):
    """Too little room to go on."""


def check_free_space(folder: Path, needed_bytes: int, what_for: str) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise DiskFull(
            f"The disk of {folder} has {free_bytes / 1e9:.1f} GB free, but {what_for} need {needed_bytes / 1e9:.1f} GB.",
            state="Nothing was started.",
            next_step="Free some space (`df -h` shows the disks), then run the same command again.",
        )
