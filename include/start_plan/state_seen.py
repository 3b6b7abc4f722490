"""What there is to make a stateful stream's state from: folders of earlier generations, backups, and the recorded batches. Reads
only (P6).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from include.checkpoints.about import DAMAGED, About, read_about
from include.checkpoints.backup import BackupDamaged, list_backups, verify_backup
from include.checkpoints.examine import examine
from include.checkpoints.seed import READY
from include.checkpoints.spark_log import PlannedBatch
from include.contract.catalog import Stream
from include.contract.identity import checkpoint_generation
from include.contract.places import Places
from include.contract.stream_spec import StreamSpec
from include.start_plan.approvals import TakeState
from include.tidemarks.recorded import Recording, read_recording
from include.tidemarks.sink_state import SinkState

FOLDERS_LOOKED_AT = 3  # the newest: older ones are further back than a warm-up reaches


@dataclass(frozen=True)
class Folder:
    """One that a state could be taken from. `whole`: its newest batch that is complete, None if there is none."""

    path: Path
    about: About | None
    whole: PlannedBatch | None
    damages: tuple[str, ...] = ()


@dataclass(frozen=True)
class StateSeen:
    folders: tuple[Folder, ...] = ()  # the one to be tried first stands first
    recording: Recording = field(default_factory=Recording)


def horizon_ms(spec: StreamSpec) -> int:
    """How far below the watermark records still matter: an open window's, and the duplicates of those."""
    within = spec.watermark.within if spec.watermark else None
    window = spec.aggregate.window if spec.aggregate else None
    return sum(int(one.total_seconds() * 1000) for one in (within, window) if one is not None)


def operators_of(spec: StreamSpec) -> int:
    """How many of them keep a state."""
    return sum(one is not None for one in (spec.dedupe, spec.aggregate))


def read_state(stream: Stream, places: Places, sinks: Mapping[str, SinkState], wish: TakeState) -> StateSeen | None:
    """None for a stateless stream."""
    if not stream.spec.is_stateful:
        return None
    folders = () if wish == "warm_up" else tuple(_folders(stream, places, from_backups=wish == "restore"))
    return StateSeen(folders, _recording(stream, places, sinks))


def _folders(stream: Stream, places: Places, *, from_backups: bool) -> Iterator[Folder]:
    found = _backups(places.backups) if from_backups else _generations(places.checkpoints)
    for path, wrong in found:
        if wrong is not None:
            yield Folder(path, read_about(path), None, (wrong,))
            continue
        examined = examine(path, stream.spec.source.topic, operators_of(stream.spec))
        told = tuple(f"{damage.file} {damage.what}" for damage in examined.damages)
        yield Folder(path, read_about(path), examined.whole, told)


def _generations(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Newest first, each with why it is not to be used."""
    numbered = {
        number: path
        for path in (root.iterdir() if root.is_dir() else ())
        if not path.name.startswith(".") and (number := checkpoint_generation(path.name)) is not None and (path / READY).exists()
    }
    for number in sorted(numbered, reverse=True)[:FOLDERS_LOOKED_AT]:
        is_damaged = (numbered[number] / DAMAGED).exists()
        yield numbered[number], "Spark could not go on from it" if is_damaged else None


def _backups(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Newest first, each with what is wrong with it: every file is compared with the hash that was taken when it was copied."""
    for backup in list_backups(root)[:FOLDERS_LOOKED_AT]:
        try:
            verify_backup(backup)
        except BackupDamaged as damage:
            yield backup.folder, damage.happened.removesuffix(".")
        else:
            yield backup.folder, None


def _recording(stream: Stream, places: Places, sinks: Mapping[str, SinkState]) -> Recording:
    """Of the foremost sink: it has every batch that any of them has."""
    marks = {name: state.tidemark for name, state in sinks.items() if state.tidemark}
    if not any(mark.clock for mark in marks.values()):
        return Recording()
    newest_epoch = max(mark.epoch for mark in marks.values())
    standing = {name: mark for name, mark in marks.items() if mark.epoch == newest_epoch}
    foremost = max(standing, key=lambda name: (sum(standing[name].offsets.values()), standing[name].watermark_ms))
    lowest = min(mark.watermark_ms for mark in standing.values())
    return read_recording(places.sinks[foremost], stream.name, foremost, newest_epoch, lowest - horizon_ms(stream.spec))
