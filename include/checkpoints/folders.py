"""A stream's checkpoint folders, and which of them a start may go on from."""

from pathlib import Path

from include.checkpoints.about import DAMAGED, pass_over
from include.checkpoints.seed import READY
from include.contract.identity import checkpoint_folder, checkpoint_generation


def newest_first(stream_folder: Path) -> list[Path]:
    """Of each generation, whatever became of it; not what a start that was killed left unfinished."""
    there = stream_folder.iterdir() if stream_folder.is_dir() else ()
    found = {folder: number for folder in there if (number := _generation(folder)) is not None}
    return sorted(found, key=lambda folder: found[folder], reverse=True)


def newest_ready(stream_folder: Path) -> Path | None:
    """The highest generation's that was made to its end and that nobody marked."""
    return next((folder for folder in newest_first(stream_folder) if _is_usable(folder)), None)


def pass_over_all(stream_folder: Path, why: str) -> None:
    for folder in newest_first(stream_folder):
        pass_over(folder, why)


def _is_usable(folder: Path) -> bool:
    return (folder / READY).is_file() and not (folder / DAMAGED).exists()


def _generation(folder: Path) -> int | None:
    number = checkpoint_generation(folder.name)
    if number is None or folder.is_symlink() or folder.name != Path(checkpoint_folder("", number)).name:
        return None
    return number
