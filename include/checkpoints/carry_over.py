"""Makes a checkpoint folder out of another one, up to a batch of it: for a new generation, a backup or a restore.

1. what the batch needs is listed; 2. it is linked (or copied) into a folder beside its place; 3. the caller's files are added;
4. READY is written last; 5. the folder is renamed into place. The source is never changed: Spark never writes into a file that is
there, so a link that both folders share stays as it was. Where a live driver removes old files meanwhile, all begins again.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from include.checkpoints.about import ABOUT
from include.checkpoints.file_damage import beside
from include.checkpoints.seed import READY, CheckpointExists
from include.checkpoints.state_files import StateFiles
from include.contract.exit_class import ExitClass, StreamFailure

ATTEMPTS = 5  # a driver removes old files once per batch; a copy of some hundred files is quicker than that
MADE = ("metadata", "sources/0/0")
KEPT = (ABOUT,)  # beside Spark's files
Put = Callable[[Path, Path], object]


class CannotCarryOver(StreamFailure):
    """The folder is not whole up to the batch, or its files kept vanishing."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


def carry_over(source: Path, target: Path, through: int, more: Mapping[str, bytes], *, put: Put | None = None) -> None:
    """`more` replaces files of the same name; `put` is `link` unless told otherwise.

    READY names what Spark never removes, and `more`.
    """
    _refuse_existing(target)
    unfinished = assemble(source, target, through, more, put=put or link)
    kept = [name for name in KEPT if (unfinished / name).is_file()]
    (unfinished / READY).write_text(json.dumps(hashes(unfinished, dict.fromkeys([*MADE, *kept, *more]))))  # 4
    unfinished.rename(target)  # 5


def assemble(source: Path, target: Path, through: int, more: Mapping[str, bytes], *, put: Put) -> Path:
    """Steps 1 to 3: the unfinished folder beside the target. No driver ever looks at its name."""
    unfinished = target.with_name(f".{target.name}.unfinished")
    why = ""
    for _ in range(ATTEMPTS):
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            for name in needed(source, through, leave_out=more):  # 1
                _make_room(unfinished / name)
                put(source / name, unfinished / name)  # 2
        except FileNotFoundError as error:
            why = f"{error.filename} vanished meanwhile"
            continue
        for name, content in more.items():  # 3
            _make_room(unfinished / name)
            (unfinished / name).write_bytes(content)
        return unfinished
    shutil.rmtree(unfinished, ignore_errors=True)
    raise CannotCarryOver(
        f"{source} could not be carried over through batch {through} in {ATTEMPTS} attempts: {why}.",
        state=f"{target} was not made; {source} is as it was.",
        next_step="Start the stream again; if its driver still runs, stop it first.",
    )


def needed(source: Path, through: int, leave_out: Iterable[str] = ()) -> list[str]:
    """Below the source. With what Hadoop and Spark wrote beside each; of what is left out, that neither."""
    state = StateFiles(source).of_version(through + 1)
    if not state.is_complete:
        told = "; ".join(f"{file} {what}" for file, what in list(state.wrong.items())[:3])
        raise CannotCarryOver(
            f"{source} does not hold the state after batch {through}: {told}.",
            state=f"Nothing was made; {source} is as it was.",
            next_step="Start the stream again: it rebuilds its state from Kafka; or restore a backup with recover_stream.",
        )
    logs = [
        source / log / str(number) for log in ("offsets", "commits") for number in {*_numbers(source / log, through), through}
    ]
    made = [
        source / "metadata",
        *(source / name for name in KEPT if (source / name).is_file()),
        *(file for file in (source / "sources").rglob("*") if file.is_file() and file.name[0] != "."),
    ]
    without = {near for name in leave_out for near in beside(source / name)}
    files = [near for file in (*made, *logs, *state.files) for near in beside(file) if near == file or near.exists()]
    return [str(file.relative_to(source)) for file in files if file not in without]


def link(source: Path, target: Path) -> None:
    """A copy where the file system has no links, or the target lies on another one."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, target)


def hashes(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: sha256(folder / name) for name in names}


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise CheckpointExists(
            f"{target} is there already, but each generation begins a folder of its own.",
            state="Nothing was changed.",
            next_step="Start the stream again: it takes a new generation.",
        )


def _make_room(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)


def _numbers(log: Path, up_to: int) -> list[int]:
    return [int(file.name) for file in log.glob("*") if file.name.isdecimal() and int(file.name) <= up_to]
