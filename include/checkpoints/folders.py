"""Which of a stream's checkpoint folders a start may go on from."""

from pathlib import Path

from include.checkpoints.about import DAMAGED
from include.checkpoints.seed import READY
from include.contract.identity import checkpoint_folder, checkpoint_generation


def newest_ready(stream_folder: Path) -> Path | None:
    """The highest generation's that was made to its end and that nobody marked as damaged."""
    there = stream_folder.iterdir() if stream_folder.is_dir() else ()
    found = {folder: checkpoint_generation(folder.name) for folder in there if _is_usable(folder)}
    return max(found, key=lambda folder: found[folder] or 0, default=None)


def _is_usable(folder: Path) -> bool:
    generation = checkpoint_generation(folder.name)
    if generation is None or folder.is_symlink() or folder.name != Path(checkpoint_folder("", generation)).name:
        return False
    return (folder / READY).is_file() and not (folder / DAMAGED).exists()
