"""What one batch asks of its slots, and what a slot answers. Made by the driver, sent to executors as it stands."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from include.tidemarks.kafka_records import Mark, marks_partition
from include.tidemarks.note import LedgerLine, Note

Place = tuple[int, int]  # partition and offset of a source record
RESULT = "result string"


class Outcome(StrEnum):
    COMMITTED = "committed"
    DONE_BEFORE = "done before"  # by an attempt whose answer was lost
    FENCED = "fenced"
    REFUSED = "refused"  # by the broker: nothing was committed, the records are named
    TOO_MANY_REJECTS = "too many rejects"
    TOO_LONG = "too long"


@dataclass(frozen=True)
class Target:
    """Where outputs go, and by which rules."""

    address: str
    stream: str
    sink: str
    source: str
    topic: str
    partitions: int
    partition: str | int  # key, source, or a number
    compression: str
    largest_bytes: int
    timeout_ms: int
    within_seconds: float


@dataclass(frozen=True)
class SlotPlan:
    target: Target
    slots: int
    marks: int  # partitions of marks
    note: Note  # of the batch, without its ledger
    lines: Mapping[int, LedgerLine]  # by source partition, as far as the driver has counted
    log_end: int
    marks_ends: Mapping[int, int]  # as far as the driver knows: what lies behind is read by each attempt
    rejects_allowed: int  # of each slot: what the whole batch may have (P3.6)
    one_by_one: bool = False  # the broker refuses whole packs of records: alone, it is known which one is meant
    known_rejects: Mapping[Place, str] = field(default_factory=dict)  # that the broker has refused so

    def slot_of(self, source_partition: int) -> int:
        """A function of the record's partition alone: whole partitions, whatever the task (P5)."""
        return (source_partition % self.marks) % self.slots

    def lines_of(self, slot: int) -> dict[int, LedgerLine]:
        return {number: line for number, line in self.lines.items() if self.slot_of(number) == slot}

    def marks_partition_of(self, source_partition: int) -> int:
        return marks_partition(source_partition, self.marks)

    def marks_partitions_of(self, slot: int) -> list[int]:
        return sorted({self.marks_partition_of(number) for number in self.lines_of(slot)})

    def mark(self, line: LedgerLine) -> Note:
        return self.note.model_copy(update={"ledger": (line,)})

    def is_done(self, mark: Mark | None, line: LedgerLine) -> bool:
        """By an attempt of this very batch."""
        if mark is None or mark.note.tidemark != self.note.tidemark or mark.note.owner != self.note.owner:
            return False
        return (mark.line.start, mark.line.end) == (line.start, line.end)


@dataclass(frozen=True)
class SlotResult:
    slot: int
    outcome: Outcome
    lines: tuple[LedgerLine, ...] = ()
    marks_ends: Mapping[int, int] = field(default_factory=dict)
    refused: Mapping[Place, str] = field(default_factory=dict)
    told: str = ""
    newer: int = 0

    def to_json(self) -> str:
        told = asdict(self) | {
            "lines": [line.model_dump() for line in self.lines],
            "refused": [[*place, why] for place, why in self.refused.items()],
        }
        return json.dumps(told)

    @classmethod
    def from_json(cls, text: str) -> "SlotResult":
        said: dict[str, Any] = json.loads(text)
        return cls(
            **said
            | {
                "outcome": Outcome(said["outcome"]),
                "lines": tuple(LedgerLine.model_validate(line) for line in said["lines"]),
                "marks_ends": {int(number): end for number, end in said["marks_ends"].items()},
                "refused": {(partition, offset): why for partition, offset, why in said["refused"]},
            }
        )


def booked(results: Iterable[SlotResult]) -> list[LedgerLine]:
    return sorted((line for result in results for line in result.lines), key=lambda line: line.partition)
