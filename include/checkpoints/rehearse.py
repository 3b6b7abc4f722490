"""Rehearses a recovery: restores the newest backup to scratch, looks it through, and tells from which point a stream would go on.

Removes the scratch folder it made, and nothing else. Never touches a checkpoint or a sink.
"""

import shutil
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from include.checkpoints.about import About, read_about
from include.checkpoints.backup import Backup, BackupDamaged, list_backups, restore_backup
from include.checkpoints.examine import examine
from include.checkpoints.spark_log import PlannedBatch


@dataclass(frozen=True)
class RecoveryPoint:
    """What the newest backup is worth, as found by restoring it."""

    backup: Backup
    about: About | None
    whole: PlannedBatch
    age: timedelta

    @property
    def sentence(self) -> str:
        ends = ", ".join(f"{partition}: {end:,}" for partition, end in sorted(self.whole.ends.items()))
        watermark = datetime.fromtimestamp(self.whole.watermark_ms / 1000, UTC)
        return (
            f"{self.backup.folder.name} was restored and is whole: a stream would go on after batch {self.whole.batch:,}"
            f" of generation {self.backup.generation} (next offsets {ends}; watermark {watermark:%Y-%m-%d %H:%M:%S} UTC);"
            f" it is {_minutes(self.age)} old."
        )


def rehearse(backups: Path, topic: str, scratch: Path, operators: int = 1) -> RecoveryPoint | None:
    """None: there is no backup yet. `scratch` needs room for a copy of one.

    Raises BackupDamaged if the newest cannot be restored to what it says it is.
    """
    newest = next(iter(list_backups(backups)), None)
    if newest is None:
        return None
    place = Path(tempfile.mkdtemp(prefix=".rehearsal-", dir=scratch))
    restored = place / f"c{newest.generation:06d}"
    try:
        batch = restore_backup(newest, restored)
        found, about = examine(restored, topic, operators), read_about(restored)
    finally:
        shutil.rmtree(place)
    if found.whole is None or found.whole.batch != batch or found.damages:
        raise BackupDamaged(
            f"The backup {newest.folder} was restored, but it is not whole through batch {batch}: "
            + " ".join(f"{damage.file} {damage.what}." for damage in found.damages[:3]),
            state="The scratch folder was removed; the backup is as it was.",
            next_step="Trigger maintain_checkpoints: it takes a new one. Until then a lost checkpoint is rebuilt from Kafka.",
        )
    return RecoveryPoint(newest, about, found.whole, datetime.now(UTC) - newest.taken_at)


def _minutes(age: timedelta) -> str:
    minutes = max(0, round(age.total_seconds() / 60))
    return f"{minutes} minutes" if minutes < 120 else f"{minutes // 60} hours"
