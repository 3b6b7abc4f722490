"""What there is to make a stateful stream's state from: folders of earlier generations, backups, and the recorded batches. Reads
only (P6).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from include.checkpoints.about import About, read_about, read_mark
from include.checkpoints.backup import BackupDamaged, list_backups, verify_backup
from include.checkpoints.examine import examine
from include.checkpoints.folders import newest_first
from include.checkpoints.spark_log import PlannedBatch, last_committed
from include.contract.catalog import Stream
from include.contract.fingerprint import state_hash
from include.contract.identity import checkpoint_generation
from include.contract.places import Places
from include.contract.stream_spec import StreamSpec
from include.start_plan.approvals import TakeState
from include.tidemarks.note import Tidemark
from include.tidemarks.recorded import RecordedBatch, Recording, read_recording
from include.tidemarks.sink_state import SinkState

FOLDERS_LOOKED_AT = 3  # the newest that have a batch: older ones are further back than a warm-up reaches
DAMAGES_TOLD = 3  # of a folder: the first ones, each with what a start does about it


@dataclass(frozen=True)
class Folder:
    """One that a state could be taken from. `whole`: its newest batch that is complete, None if there is none."""

    path: Path
    about: About | None
    whole: PlannedBatch | None
    damages: tuple[str, ...] = ()

    @property
    def generation(self) -> int:
        """By its name, or that of the backup."""
        return checkpoint_generation(self.path.name.rpartition("-")[2]) or 0

    def fits(self, made_by: str, marks: Iterable[Tidemark]) -> bool:
        """Made by this file, and not above any sink."""
        whole = self.whole
        if whole is None or self.about is None or self.about.state_hash != made_by:
            return False
        return all(mark.covers(whole.ends) for mark in marks)


@dataclass(frozen=True)
class StateSeen:
    folders: tuple[Folder, ...] = ()  # the one to be tried first stands first
    recording: Recording = field(default_factory=Recording)


def horizon_ms(spec: StreamSpec) -> int:
    """How far below the watermark records still matter: an open window's, and the duplicates of those."""
    within = spec.watermark.within if spec.watermark else None
    window = spec.aggregate.window if spec.aggregate else None
    return sum(int(one.total_seconds() * 1000) for one in (within, window) if one is not None)


def read_state(stream: Stream, places: Places, sinks: Mapping[str, SinkState], wish: TakeState) -> StateSeen | None:
    """None for a stateless stream."""
    if not stream.spec.is_stateful:
        return None
    marks = [state.tidemark for state in sinks.values() if state.tidemark]
    found: Iterable[tuple[Path, str | None]] = ()
    if wish == "continue":
        found = _generations(places.checkpoints)
    elif wish == "restore":
        found = _backups(places.backups, marks)
    return StateSeen(tuple(_examined(stream, marks, found)), _recording(stream, places, sinks))


def _examined(stream: Stream, marks: list[Tidemark], found: Iterable[tuple[Path, str | None]]) -> Iterator[Folder]:
    """Up to the first that fits: what stands against that one stands against older ones too, and looking takes long."""
    for path, wrong in found:
        if wrong is not None:
            yield Folder(path, read_about(path), None, (wrong,))
            continue
        examined = examine(path, stream.spec.source.topic, stream.spec.stateful_operators)
        told = tuple(map(str, examined.damages[:DAMAGES_TOLD]))
        folder = Folder(path, read_about(path), examined.whole, told)
        yield folder
        if folder.fits(state_hash(stream), marks):
            return


def _generations(root: Path) -> Iterator[tuple[Path, str | None]]:
    """Newest first, each with why it is not to be used. Those of starts that died before their first batch hide no older one."""
    with_batches = 0
    for folder in newest_first(root):
        mark = read_mark(folder)
        yield folder, None if mark is None else f"it is marked: {mark}"
        with_batches += last_committed(folder) is not None
        if with_batches == FOLDERS_LOOKED_AT:
            return


def _backups(root: Path, marks: list[Tidemark]) -> Iterator[tuple[Path, str | None]]:
    """Newest first, each with what is wrong with it: every file is compared with the hash that was taken when it was copied.

    Those that say of themselves that they lie above a sink are not looked at: after a RESTORE of its table the newest do."""
    fitting = [backup for backup in list_backups(root) if all(backup.is_not_above(mark.offsets) for mark in marks)]
    for backup in fitting[:FOLDERS_LOOKED_AT]:
        try:
            verify_backup(backup)
        except BackupDamaged as damage:
            yield backup.folder, damage.happened.removesuffix(".")
        else:
            yield backup.folder, None


def _recording(stream: Stream, places: Places, sinks: Mapping[str, SinkState]) -> Recording:
    """Of the foremost sink, which has the newest batch of all; where it was added later, what the others have before it."""
    marks = {name: state.tidemark for name, state in sinks.items() if state.tidemark}
    if not any(mark.clock for mark in marks.values()):
        return Recording()
    epoch = max(mark.epoch for mark in marks.values())
    standing = {name: mark for name, mark in marks.items() if mark.epoch == epoch}
    back_to_ms = min(mark.watermark_ms for mark in standing.values()) - horizon_ms(stream.spec)
    foremost, *others = sorted(standing, key=lambda name: _how_far(standing[name]), reverse=True)
    recording = read_recording(places.sinks[foremost], stream.name, foremost, epoch, back_to_ms)
    for name in others:
        if not recording.is_whole:
            recording = recording.preceded_by(read_recording(places.sinks[name], stream.name, name, epoch, back_to_ms))
    return recording if recording.batches else _where_it_stands(standing[foremost])


def _where_it_stands(mark: Tidemark) -> Recording:
    """The log has cleaned up every batch, but not how far they went; or the sink was added, and has had none."""
    has_begun = any(offset > mark.began.get(number, 0) for number, offset in mark.offsets.items())
    if mark.clock is None or not has_begun:
        return Recording()
    clock = mark.clock.model_copy(update={"newest_ms": {}, "results": None})
    return Recording(mark.epoch, (RecordedBatch(mark.offsets, mark.offsets, clock),), is_whole=False)


def _how_far(mark: Tidemark) -> tuple[int, int, bool]:
    """Of those that are as far, one that has had a batch: the log of a sink that was added tells of none."""
    return sum(mark.offsets.values()), mark.watermark_ms, bool(mark.beside)
