"""What maintain_checkpoints does for one stateful stream: back up its newest folder, rehearse a recovery, let old backups go.

Each step is tried whatever became of those before it. A folder that has not moved since the newest backup is not copied again, so
that a stopped stream keeps its older backups.
"""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from include.checkpoints.about import made_otherwise
from include.checkpoints.backup import Backup, find_whole, list_backups, make_backup, verify_backup
from include.checkpoints.backup_expiry import expire_backups
from include.checkpoints.folders import newest_ready
from include.checkpoints.rehearse import rehearse
from include.checkpoints.spark_log import last_committed
from include.contract.errors import TidemarkError
from include.contract.identity import checkpoint_generation


@dataclass(frozen=True)
class Cared:
    """A line per step, and the steps that failed, in words."""

    lines: tuple[str, ...]
    failures: tuple[str, ...]


@dataclass(frozen=True)
class CheckpointCare:
    stream: str
    topic: str
    operators: int
    state_hash: str
    shuffle_partitions: int
    checkpoints: Path  # the stream's own folder
    backups: Path  # likewise
    keep: int
    keep_for: timedelta

    def run(self) -> Cared:
        lines: list[str] = []
        failures: list[str] = []
        for step in (self._back_up, self._rehearse, self._expire):
            try:
                lines.append(f"{self.stream}: {step()}")
            except (TidemarkError, OSError) as error:
                failures.append(f"{self.stream}: {error}")
        return Cared(tuple(lines), tuple(failures))

    def _back_up(self) -> str:
        folder = newest_ready(self.checkpoints)
        if folder is None:
            return "there is no checkpoint to back up yet."
        if last_committed(folder) is None:
            return f"{folder.name} has no committed batch yet; nothing was backed up."
        if same := self._same_as(folder):
            return f"{folder.name} has not moved since {same.folder.name}; nothing was copied."
        about = {"stream": self.stream, "generation": checkpoint_generation(folder.name)}
        made = make_backup(folder, self.backups, self.topic, about, self.operators)
        return f"{folder.name} was backed up through batch {made.tidemark['checkpoint']['batch']:,} as {made.folder.name}."

    def _same_as(self, folder: Path) -> Backup | None:
        """The newest backup, if it is sound and ends where the folder does."""
        newest = next(iter(list_backups(self.backups)), None)
        if newest is None or newest.generation != checkpoint_generation(folder.name):
            return None
        try:
            verify_backup(newest)
            whole = find_whole(folder, self.topic, self.operators)
            return newest if newest.tidemark["checkpoint"]["batch"] == whole.batch else None
        except (TidemarkError, KeyError, ValueError):
            return None

    def _rehearse(self) -> str:
        found = rehearse(self.backups, self.topic, self.backups, self.operators)
        if found is None:
            return "there is no backup to rehearse with yet."
        why = made_otherwise(found.about, found.whole.settings, self.state_hash, self.shuffle_partitions)
        return f"{found.sentence} But no start goes on from it any more: {why}." if why else found.sentence

    def _expire(self) -> str:
        gone = expire_backups(self.backups, self.keep, self.keep_for)
        return f"{len(gone):,} backups expired, {len(list_backups(self.backups)):,} are kept."
