"""Makes a checkpoint folder from which Spark begins at exactly the given offsets; of a stateful stream also with batches whose
ranges and watermarks are set by hand (P6.2).

1. the folder is made beside its place; 2. Spark's files are written; 3. READY is written last, with their hashes;
4. the folder is renamed into place. A folder without a READY that fits is never used (P2).
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from include.checkpoints.spark_log import VERSION, CheckpointUnreadable, Offsets
from include.contract.exit_class import ExitClass, StreamFailure

READY = "READY"
NOTHING_MORE: Mapping[str, bytes] = {}
NOTHING_PLANNED: Mapping[int, bytes] = {}


class CheckpointExists(StreamFailure):
    """A generation's folder is made once."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE


def make_checkpoint(
    checkpoint: Path,
    topic: str,
    start: Offsets,
    more: Mapping[str, bytes] = NOTHING_MORE,
    planned: Mapping[int, bytes] = NOTHING_PLANNED,
) -> None:
    """`more`: files that must stay as they are, by their names; `planned`: batches that Spark shall run as they stand there."""
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
    for name, content in {**_files(topic, start), **more}.items():  # 2
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        (unfinished / name).write_bytes(content)
    hashes = _hashes(unfinished)
    for batch, content in planned.items():  # Spark removes them when they are old
        plan_batch(unfinished, batch, content)
    (unfinished / READY).write_text(json.dumps(hashes))  # 3
    unfinished.rename(checkpoint)  # 4


def plan_batch(checkpoint: Path, batch: int, content: bytes) -> None:
    """offsets/N, written by hand: the next query on this folder runs it, as a batch that was planned and not finished."""
    log = checkpoint / "offsets"
    log.mkdir(exist_ok=True)
    (log / f".{batch}.unfinished").write_bytes(content)
    (log / f".{batch}.unfinished").rename(log / str(batch))


def planned_batch(topic: str, ends: Offsets, metadata: str) -> bytes:
    """`metadata`: Spark's own JSON of watermark, time and settings; one that is left out would silently be an old default."""
    return f"{VERSION}\n{metadata}\n{_as_json(topic, ends)}".encode()


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
    return {
        "metadata": json.dumps({"id": str(uuid.uuid4())}).encode(),
        "sources/0/0": f"\0{VERSION}\n{_as_json(topic, start)}".encode(),
    }


def _as_json(topic: str, offsets: Offsets) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})


def _hashes(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): _sha256(file) for file in sorted(folder.rglob("*")) if file.is_file()}


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
