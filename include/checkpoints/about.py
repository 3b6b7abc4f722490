"""What a stateful stream's folder says of itself, beside Spark's files: by which file its state was made, and from what (P6)."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

ABOUT = "about.json"
DAMAGED = "DAMAGED"  # a file: Spark could not go on from this folder, so nobody tries it again


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


def mark_damaged(checkpoint: Path, why: str) -> None:
    """And the folder that it was carried over from: both share the files."""
    about = read_about(checkpoint)
    names = [checkpoint.name, *([about.carried_from] if about and about.carried_from else [])]
    for folder in (checkpoint.with_name(name) for name in names):
        if folder.is_dir():
            (folder / DAMAGED).write_text(why)
