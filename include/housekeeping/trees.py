"""Files and folders: when they were last written, how big they are, and their removal, also while another run is at it."""

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tree:
    """A file, or a folder with all that is in it."""

    path: Path
    written_at: float  # of its newest file: a removal that was killed half-way does not make a folder young again
    bytes: int


def measure(path: Path) -> Tree | None:
    """None if it has gone meanwhile."""
    written_at, size = 0.0, 0
    try:
        own = path.lstat()
        for file in [path] if path.is_file() else path.rglob("*"):
            with suppress(FileNotFoundError):
                seen = file.lstat()
                if not file.is_dir():
                    written_at, size = max(written_at, seen.st_mtime), size + seen.st_size
    except FileNotFoundError:
        return None
    return Tree(path, written_at or own.st_mtime, size)


def measure_all(paths: Iterable[Path]) -> list[Tree]:
    return [tree for path in sorted(paths) if (tree := measure(path)) is not None]


def remove(path: Path) -> None:
    """Until it is gone: another run may take the same files away under our hands."""
    while path.exists():
        with suppress(FileNotFoundError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def for_each(paths: Iterable[Path], act: Callable[[Path], object]) -> tuple[str, ...]:
    """One that cannot be removed does not keep the others. Returns what went wrong, in words."""
    failures = []
    for path in paths:
        try:
            act(path)
        except OSError as error:
            failures.append(f"{path}: {error.strerror or error}")
    return tuple(failures)


def folders_in(folder: Path) -> list[Path]:
    """Real ones: what a link points to is not ours."""
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.is_symlink()) if folder.is_dir() else []
