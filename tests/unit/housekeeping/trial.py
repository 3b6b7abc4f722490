"""Files and folders that were last written so many days ago."""

import os
import time
from pathlib import Path

DAY = 86_400


def aged(file: Path, days: float, text: str = "x" * 100) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return make_old(file, days)


def aged_checkpoint(folder: Path, days: float) -> Path:
    """As Spark leaves one: two logs of batches, and what was made before the first."""
    for name in ("metadata", "sources/0/0", "offsets/0", "commits/0"):
        aged(folder / name, days)
    return folder


def make_old(path: Path, days: float) -> Path:
    written_at = time.time() - days * DAY
    os.utime(path, (written_at, written_at))
    return path
