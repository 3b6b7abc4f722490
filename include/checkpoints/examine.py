"""Looks through a stateful stream's checkpoint folder before a start: up to which batch it is whole, and what is damaged.

Reads only. Whether the folder lies above a sink's tidemark is for the start plan to compare: `Examined.whole.ends` is its end.
A batch that is planned but not committed is no damage: it runs again with the same range.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from include.checkpoints.about import ABOUT, DAMAGED, read_mark
from include.checkpoints.file_damage import MISSING, Damage, what_is_wrong
from include.checkpoints.seed import READY
from include.checkpoints.spark_log import VERSION, CheckpointUnreadable, PlannedBatch, read_planned, read_start
from include.checkpoints.state_files import StateFiles, Wrong


@dataclass(frozen=True)
class Examined:
    """`whole`: the newest committed batch whose log is gapless up to it and whose state is complete. None: nothing is of use."""

    whole: PlannedBatch | None
    damages: tuple[Damage, ...]


def examine(checkpoint: Path, topic: str, operators: int = 1) -> Examined:
    """`operators`: how many stateful ones the query has, so that one whose folder is gone altogether is missed."""
    hashes = _hashes_as_made(checkpoint)
    made = _wrong_as_made(checkpoint, topic, hashes)
    batches, logs = _read_logs(checkpoint, topic, hashes or {})
    whole, state = _newest_with_state(StateFiles(checkpoint, operators), batches)
    if made:
        whole = None
    repair = _repair(whole)
    return Examined(whole, tuple(Damage(file, what, repair) for file, what in (made | logs | state).items()))


def _repair(whole: PlannedBatch | None) -> str:
    if whole is None:
        return "A start passes over this folder, and rebuilds the state from Kafka if none before it is whole."
    return f"A start goes on after batch {whole.batch}, the newest that is whole, and runs those after it again."


def _hashes_as_made(checkpoint: Path) -> dict[str, str] | None:
    try:
        return {str(name): str(sha256) for name, sha256 in dict(json.loads((checkpoint / READY).read_bytes())).items()}
    except (OSError, ValueError, TypeError):
        return None


def _wrong_as_made(checkpoint: Path, topic: str, hashes: dict[str, str] | None) -> Wrong:
    """What was there before the first batch and never changes."""
    checks: dict[str, Callable[[], object]] = {
        "metadata": lambda: json.loads((checkpoint / "metadata").read_bytes())["id"],
        "sources/0/0": lambda: read_start(checkpoint, topic),
    }
    if hashes and ABOUT in hashes:
        checks[ABOUT] = lambda: dict(json.loads((checkpoint / ABOUT).read_bytes()))
    found = {name: _told_by(check, checkpoint / name) or _not_as_made(checkpoint, name, hashes) for name, check in checks.items()}
    wrong = {name: what for name, what in found.items() if what is not None}
    if not (checkpoint / READY).is_file():
        wrong[READY] = "is missing: the folder was not made to its end"
    elif hashes is None or any(name not in hashes for name in ("metadata", "sources/0/0")):
        wrong[READY] = "is torn: it does not name what was made"
    if (mark := read_mark(checkpoint)) is not None:
        wrong[DAMAGED] = f"says: {mark}"
    return wrong


def _read_logs(checkpoint: Path, topic: str, hashes: dict[str, str]) -> tuple[list[PlannedBatch], Wrong]:
    """The committed batches from the first that is there up to the first damage, and every damage."""
    offsets, commits = _numbers(checkpoint / "offsets"), _numbers(checkpoint / "commits")
    wrong: Wrong = {}
    good: list[PlannedBatch] = []
    is_gapless = True
    for number in range(min(offsets | commits, default=0), max(offsets | commits, default=-1) + 1):
        planned, what = _planned(checkpoint, number, topic, hashes)
        found = {f"offsets/{number}": what}
        if number in commits or number != max(offsets, default=-1):  # else it is planned and not committed
            found[f"commits/{number}"] = _wrong_commit(checkpoint / "commits" / str(number))
        wrong_here = {file: what for file, what in found.items() if what is not None}
        wrong |= wrong_here
        if planned is not None and number in commits and not wrong_here and is_gapless:
            good.append(planned)
        elif good or any(what != MISSING for what in wrong_here.values()):  # the first may be gone: Spark removes old ones
            is_gapless = False
    return good, wrong


def _planned(checkpoint: Path, number: int, topic: str, hashes: dict[str, str]) -> tuple[PlannedBatch | None, str | None]:
    name = f"offsets/{number}"
    try:
        planned = read_planned(checkpoint, number, topic)
    except CheckpointUnreadable as error:
        return None, what_is_wrong(checkpoint / name) or _reason(error, checkpoint / name)
    return planned, what_is_wrong(checkpoint / name) or _not_as_made(checkpoint, name, hashes)


def _wrong_commit(file: Path) -> str | None:
    def check() -> None:
        version, _, content = file.read_bytes().partition(b"\n")
        if version != VERSION.encode():
            raise CheckpointUnreadable(file, f"begins with {version[:20].decode(errors='replace')!r} instead of {VERSION}")
        dict(json.loads(content))

    return _told_by(check, file)


def _not_as_made(checkpoint: Path, name: str, hashes: dict[str, str] | None) -> str | None:
    if not hashes or name not in hashes:
        return None
    found = hashlib.sha256((checkpoint / name).read_bytes()).hexdigest()
    return None if found == hashes[name] else "is not as it was made"


def _newest_with_state(state_files: StateFiles, batches: list[PlannedBatch]) -> tuple[PlannedBatch | None, Wrong]:
    """Of a version below the newest, a file that is missing may have been removed by Spark: only what is torn is told."""
    wrong: Wrong = {}
    for tried, batch in enumerate(reversed(batches)):
        state = state_files.of_version(batch.batch + 1)
        wrong |= {file: what for file, what in state.wrong.items() if not tried or what != MISSING}
        if state.is_complete:
            return batch, wrong
    return None, wrong


def _numbers(log: Path) -> set[int]:
    return {int(file.name) for file in log.glob("*") if file.name.isdecimal()}


def _told_by(check: Callable[[], object], file: Path) -> str | None:
    try:
        if what := what_is_wrong(file):
            return what
        check()
    except CheckpointUnreadable as error:
        return _reason(error, file)
    except FileNotFoundError:
        return MISSING
    except (ValueError, LookupError, TypeError):
        return "is torn: it holds no JSON object to its end"
    return None


def _reason(error: CheckpointUnreadable, file: Path) -> str:
    return error.happened.removeprefix(f"{file} ").removesuffix(".")
