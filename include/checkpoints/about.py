"""What a stateful stream's folder says of itself, beside Spark's files: by which file its state was made, and from what (P6)."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ABOUT = "about.json"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"  # Spark takes the number of the checkpoint, whatever the session says
DAMAGED = "DAMAGED"  # a file that says why nobody is to go on from this folder


@dataclass(frozen=True)
class About:
    state_hash: str
    carried_from: str | None = None  # the folder that it goes on from

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def read_about(checkpoint: Path) -> About | None:
    """None for a folder that says nothing, or nothing that can be read: it is not continued."""
    try:
        return About(**json.loads((checkpoint / ABOUT).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def made_otherwise(about: About | None, settings: Mapping[str, str], state_hash: str, shuffle_partitions: int) -> str | None:
    """Why a state that is whole does not serve: None if it does. `settings`: those recorded with its newest batch."""
    if about is None or about.state_hash != state_hash:
        return "its state was made by another stream file (key, window, within, or what makes the rows)"
    if (had := settings.get(SHUFFLE_PARTITIONS)) != str(shuffle_partitions):
        return f"its state lies in {had} shuffle partitions, the environment says {shuffle_partitions}"
    return None


def read_mark(checkpoint: Path) -> str | None:
    """Why nobody is to go on from it; None if it is not marked."""
    marked = checkpoint / DAMAGED
    return marked.read_text().strip()[:200] if marked.is_file() else None


def pass_over(checkpoint: Path, why: str) -> None:
    """One that is marked already keeps its reason."""
    if not (checkpoint / DAMAGED).exists():
        (checkpoint / DAMAGED).write_text(why)


def mark_damaged(checkpoint: Path, why: str) -> None:
    """And the folder that it was carried over from: both share the files."""
    about = read_about(checkpoint)
    names = [checkpoint.name, *([about.carried_from] if about and about.carried_from else [])]
    for folder in (checkpoint.with_name(name) for name in names):
        if folder.is_dir():
            (folder / DAMAGED).write_text(why)
