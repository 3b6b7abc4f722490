"""Reads the offset and commit logs inside a checkpoint folder: which records a batch holds, and which batches are done.

Every file begins with a version line; one that we have not learnt to read is refused, never guessed at.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.contract.exit_class import ExitClass, StreamFailure

VERSION = "v1"
Offsets = Mapping[int, int]  # of one topic: partition -> offset


class CheckpointUnreadable(StreamFailure):
    """A checkpoint file is missing, damaged, or of a version that is not known."""

    exit_class = ExitClass.CHECKPOINT_DAMAGE

    def __init__(self, file: Path, reason: str) -> None:
        super().__init__(
            f"{file} {reason}.",
            state="Nothing was written; the sinks hold their tidemarks.",
            next_step="Start the stream again: it begins a new folder; a state is taken from one that is whole, or from Kafka.",
        )


@dataclass(frozen=True)
class PlannedBatch:
    """offsets/N: where batch N ends (exclusive), and the settings Spark planned it with."""

    batch: int
    ends: Offsets
    watermark_ms: int
    timestamp_ms: int
    settings: Mapping[str, str]


@dataclass(frozen=True)
class BatchRange:
    """[start, end) per partition. A partition that appeared with this batch starts at 0."""

    starts: Offsets
    ends: Offsets


def read_range(checkpoint: Path, batch: int, topic: str) -> BatchRange:
    ends = read_planned(checkpoint, batch, topic).ends
    before = read_planned(checkpoint, batch - 1, topic).ends if batch else read_start(checkpoint, topic)
    return BatchRange({partition: before.get(partition, 0) for partition in ends}, ends)


def read_planned(checkpoint: Path, batch: int, topic: str) -> PlannedBatch:
    file = checkpoint / "offsets" / str(batch)
    header, *sources = _lines(file, _read(file))
    if len(sources) != 1:
        raise CheckpointUnreadable(file, f"speaks of {len(sources)} sources, but a stream has one")
    settings = _json(file, header)
    try:
        watermark, timestamp, conf = int(settings["batchWatermarkMs"]), int(settings["batchTimestampMs"]), dict(settings["conf"])
    except (KeyError, TypeError, ValueError):
        raise CheckpointUnreadable(file, f"holds the settings {header[:40]!r}, which are not those of a batch") from None
    return PlannedBatch(batch, _offsets(file, sources[0], topic), watermark, timestamp, conf)


def read_start(checkpoint: Path, topic: str) -> Offsets:
    """sources/0/0: where batch 0 begins. Alone among these files it has a zero byte before its version."""
    file = checkpoint / "sources" / "0" / "0"
    start, *more = _lines(file, _read(file).removeprefix(b"\0"))
    if more:
        raise CheckpointUnreadable(file, f"has {len(more)} lines too many")
    return _offsets(file, start, topic)


def last_planned(checkpoint: Path) -> int | None:
    return _highest(checkpoint / "offsets")


def last_committed(checkpoint: Path) -> int | None:
    """A batch that is planned but not committed runs again, with the same number and range."""
    return _highest(checkpoint / "commits")


def _highest(log: Path) -> int | None:
    return max((int(file.name) for file in log.glob("*") if file.name.isdecimal()), default=None)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise CheckpointUnreadable(file, "is missing") from None


def _lines(file: Path, content: bytes) -> list[str]:
    version, *lines = content.decode(errors="replace").removesuffix("\n").split("\n")
    if version != VERSION:
        raise CheckpointUnreadable(file, f"begins with {version[:20]!r} instead of {VERSION}")
    if not lines:
        raise CheckpointUnreadable(file, "ends after its version line")
    return lines


def _offsets(file: Path, line: str, topic: str) -> Offsets:
    topics = _json(file, line)
    if list(topics) != [topic]:
        raise CheckpointUnreadable(file, f"is about {', '.join(topics) or 'no topic'}, not {topic}")
    partitions = topics[topic]
    if not (isinstance(partitions, dict) and partitions and all(map(_is_offset, partitions.items()))):
        raise CheckpointUnreadable(file, f"holds {line[:40]!r}, which are not offsets of partitions")
    return {int(partition): offset for partition, offset in partitions.items()}


def _is_offset(entry: tuple[str, object]) -> bool:
    partition, offset = entry
    return partition.isdecimal() and type(offset) is int and offset >= 0


def _json(file: Path, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise CheckpointUnreadable(file, f"holds {line[:40]!r}, which is no JSON object")
    return value
