"""Backups of a stateful stream's checkpoint: real copies, cut off at the newest whole batch, every file hashed, READY last.

`<backups>/<stream>/b20261118T093000Z-c000007/` is a checkpoint folder like any other, with `tidemark.json` beside Spark's
files; its READY names all of them. It may be taken beside a live driver, and never changes the folder it is taken from.
"""

import json
import re
import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from include.checkpoints.carry_over import ATTEMPTS, assemble, carry_over, hashes
from include.checkpoints.examine import Examined, examine
from include.checkpoints.seed import READY
from include.checkpoints.spark_log import Offsets, PlannedBatch, last_committed
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import checkpoint_generation

TIDEMARK = "tidemark.json"
PAUSE_SECONDS = 0.2  # between two looks at a folder in which a driver may be removing old files


class NothingToBackUp(StreamFailure):
    """No batch of the folder is whole."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


class BackupDamaged(StreamFailure):
    """A backup is not as it was made."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


@dataclass(frozen=True)
class Backup:
    folder: Path
    taken_at: datetime
    generation: int

    @property
    def is_ready(self) -> bool:
        return (self.folder / READY).is_file()

    @property
    def tidemark(self) -> dict[str, Any]:
        """`checkpoint`: generation, batch, ends and watermark of the copy; beside it what the caller told about it."""
        return dict(json.loads((self.folder / TIDEMARK).read_bytes()))

    def is_not_above(self, offsets: Offsets) -> bool:
        """By its own word. One that cannot be read is not above anything: whoever verifies it says what is wrong."""
        try:
            ends = {int(number): int(end) for number, end in self.tidemark["checkpoint"]["ends"].items()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return True
        return all(end <= offsets.get(number, 0) for number, end in ends.items())


def make_backup(checkpoint: Path, backups: Path, topic: str, about: Mapping[str, object], operators: int = 1) -> Backup:
    """`backups` is the stream's own folder."""
    whole = find_whole(checkpoint, topic, operators)
    generation = checkpoint_generation(checkpoint.name) or 0
    taken_at = datetime.now(UTC).replace(microsecond=0)
    folder = backups / f"b{taken_at:%Y%m%dT%H%M%SZ}-c{generation:06d}"
    if (made := Backup(folder, taken_at, generation)).is_ready:  # in this very second
        return made
    backups.mkdir(parents=True, exist_ok=True)
    beside = backups / f"{folder.name}.{uuid.uuid4().hex[:8]}"  # two may be at it at once
    told = json.dumps({"checkpoint": _point(whole, generation, taken_at), **about}, default=str)
    try:
        unfinished = assemble(checkpoint, beside, whole.batch, {TIDEMARK: told.encode()}, put=shutil.copy2)
        (unfinished / READY).write_text(json.dumps(_all_hashes(unfinished)))
        if not made.is_ready:  # by another one, in the same second
            unfinished.rename(folder)
    finally:
        shutil.rmtree(beside.with_name(f".{beside.name}.unfinished"), ignore_errors=True)
    return made


def list_backups(backups: Path) -> list[Backup]:
    """Newest first; only those with a READY."""
    there = backups.iterdir() if backups.is_dir() else ()
    found = [backup for folder in there if not folder.is_symlink() and (backup := _named(folder)) and backup.is_ready]
    return sorted(found, key=lambda backup: (backup.generation, backup.taken_at), reverse=True)


def verify_backup(backup: Backup) -> None:
    """Raises BackupDamaged unless every file is there as it was copied, and no other."""
    try:
        recorded = dict(json.loads((backup.folder / READY).read_bytes()))
    except (OSError, ValueError, TypeError):
        raise _damaged(backup, [f"{READY} is missing or torn"]) from None
    found = _all_hashes(backup.folder)
    wrong = [f"{name} is missing" for name in recorded if name not in found]
    wrong += [f"{name} is not as it was copied" for name in recorded if name in found and found[name] != recorded[name]]
    wrong += [f"{name} was not copied" for name in found if name not in recorded]
    if wrong:
        raise _damaged(backup, wrong)


def restore_backup(backup: Backup, target: Path) -> int:
    """A new folder at the target, of copies; the number of its newest batch. Verified first."""
    verify_backup(backup)
    batch = int(backup.tidemark["checkpoint"]["batch"])
    carry_over(backup.folder, target, batch, {}, put=shutil.copy2)
    return batch


def find_whole(checkpoint: Path, topic: str, operators: int) -> PlannedBatch:
    """What a driver removes while we look may seem damaged: looked at again."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        last = last_committed(checkpoint)
        found: Examined = examine(checkpoint, topic, operators)
        if found.whole is not None and last is not None and found.whole.batch >= last:
            break
    if found.whole is None:
        told = " ".join(f"{damage.file} {damage.what}." for damage in found.damages[:3]) or "No batch is committed yet."
        raise NothingToBackUp(
            f"No batch in {checkpoint} is whole. {told}",
            state="No backup was made; older ones are as they were.",
            next_step="Nothing, if the stream has just begun; otherwise its next start rebuilds the state from Kafka.",
        )
    return found.whole


def _point(whole: PlannedBatch, generation: int, taken_at: datetime) -> dict[str, object]:
    ends = {str(partition): end for partition, end in sorted(whole.ends.items())}
    return {
        "generation": generation,
        "batch": whole.batch,
        "ends": ends,
        "watermark_ms": whole.watermark_ms,
        "taken_at": taken_at.isoformat(),
    }


def _named(folder: Path) -> Backup | None:
    match = re.fullmatch(r"b(\d{8}T\d{6}Z)-c(\d{6,})", folder.name)
    if match is None or not folder.is_dir():
        return None
    return Backup(folder, datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC), int(match[2]))


def _all_hashes(folder: Path) -> dict[str, str]:
    names = (str(file.relative_to(folder)) for file in sorted(folder.rglob("*")) if file.is_file())
    return hashes(folder, (name for name in names if name != READY))


def _damaged(backup: Backup, wrong: list[str]) -> BackupDamaged:
    return BackupDamaged(
        f"The backup {backup.folder} is not as it was made: {'; '.join(wrong[:3])} ({len(wrong):,} in all).",
        state="Nothing was restored.",
        next_step="Restore an older one, or let a start rebuild the state from Kafka.",
    )
