"""Makes a checkpoint folder from which Spark begins at exactly the given offsets.

1. the folder is made beside its place; 2. Spark's files are written; 3. READY is written last, with their hashes;
4. the folder is renamed into place. A folder without a READY that fits is never used (P2).
"""

import hashlib
import json
import shutil
import uuid
from pathlib import Path

from include.checkpoints.spark_log import VERSION, CheckpointUnreadable, Offsets
from include.contract.exit_class import ExitClass, StreamFailure

READY = "READY"


class CheckpointExists(StreamFailure):
    """A generation's folder is made once."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


def make_checkpoint(checkpoint: Path, topic: str, start: Offsets) -> None:
    if not start or min(start.values()) < 0:  # to Kafka -1 and -2 mean latest and earliest
        raise ValueError(f"a start needs an offset of 0 or more for each partition, got {dict(start)}")
    if checkpoint.exists():
        raise CheckpointExists(
            f"{checkpoint} is there already, but each generation begins a folder of its own.",
            state="Nothing was changed.",
            next_step="Start the stream again: it takes a new generation.",
        )
    unfinished = checkpoint.with_name(f".{checkpoint.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # 1: of a start that was killed; no driver ever looks at this name
    for name, content in _files(topic, start).items():  # 2
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        (unfinished / name).write_bytes(content)
    (unfinished / READY).write_text(json.dumps(_hashes(unfinished)))  # 3
    unfinished.rename(checkpoint)  # 4


def check_ready(checkpoint: Path) -> None:
    """Raises CheckpointUnreadable unless every file that was made is there, unchanged."""
    try:
        made: dict[str, str] = dict(json.loads((checkpoint / READY).read_text()))
        _ = made["metadata"], made["sources/0/0"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        raise CheckpointUnreadable(checkpoint / READY, "is missing or damaged: the folder was not made to its end") from None
    for name, sha256 in made.items():
        file = checkpoint / name
        if not file.is_file() or _sha256(file) != sha256:
            raise CheckpointUnreadable(file, "is not as it was made")


def _files(topic: str, start: Offsets) -> dict[str, bytes]:
    offsets = json.dumps({topic: {str(partition): offset for partition, offset in sorted(start.items())}})
    return {
        "metadata": json.dumps({"id": str(uuid.uuid4())}).encode(),
        "sources/0/0": f"\0{VERSION}\n{offsets}".encode(),
    }


def _hashes(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): _sha256(file) for file in sorted(folder.rglob("*")) if file.is_file()}


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
