"""The note that every commit of ours carries: which tidemark it sets, on which it builds, and the ledger of its rows (P4)."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from include.contract.exit_class import ExitClass, StreamFailure

ADOPTED = -1  # the batch of a tidemark that was set by an adoption, before its generation's first batch
GENERATION_SHIFT = 32


def transaction_version(generation: int, batch: int | None) -> int:
    """Delta's number of a commit (P4): a fence (no batch) is generation << 32, an adoption one more, then the batches."""
    return generation << GENERATION_SHIFT | (0 if batch is None else batch + 2)


def generation_of(number: int) -> int:
    """Of a transaction version."""
    return number >> GENERATION_SHIFT


class NoteUnreadable(StreamFailure):
    """A commit claims to be ours, but its note is not one that this version reads."""

    exit_class = ExitClass.SINK_WENT_BACK


class Kind(StrEnum):
    FENCE = "fence"
    ADOPT = "adopt"
    BATCH = "batch"
    MAINTAIN = "maintain"  # of files, not of records; its tidemark, if it has one, is the standing one repeated


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class EventClock(_Part):
    """What a stateful stream's batch knew of event time, in milliseconds (P6): by it the batch can be run again as it was."""

    watermark_ms: int  # what it closed: Spark's `batchWatermarkMs`
    late_ms: int  # by what it judged late records: the watermark of the batch before
    highest_ms: int | None = None  # the newest event time of this and every earlier batch
    newest_ms: dict[int, int] = Field(default_factory=dict)  # per partition the newest event time in this batch
    results: int | None = None  # rows that windows gave out in this batch; none for a stream whose rows keep their coordinates
    time_hash: str | None = None  # of what makes event time: a watermark of another time serves nobody
    forgotten_ms: int | None = None  # events up to there are in no state any more: windows that began by then are not written


class Tidemark(_Part):
    """Compared as a whole: the same offsets set by another batch are another tidemark."""

    generation: int
    batch: int
    offsets: dict[int, int]
    topic_id: str
    epoch: int
    began: dict[int, int] = Field(default_factory=dict)  # where the stream began to read this epoch; not spoken of: at 0
    beside: tuple[str, ...] = ()  # the sinks of the file that made the newest batch; none before the first
    apart: dict[int, int] = Field(
        default_factory=dict
    )  # up to there others got what this sink lacks, while it was not of the file
    clock: EventClock | None = None  # of a stateful stream

    def next_offset(self, partition: int) -> int:
        """A partition that is not spoken of has nothing in the sink."""
        return self.offsets.get(partition, 0)

    def covers(self, ends: Mapping[int, int], clock: EventClock | None = None) -> bool:
        """A batch without records may still raise the watermark, and close windows (P6.1)."""
        is_closed = clock is None or clock.watermark_ms <= self.watermark_ms
        return is_closed and all(end <= self.next_offset(partition) for partition, end in ends.items())

    @property
    def watermark_ms(self) -> int:
        return self.clock.watermark_ms if self.clock else 0

    def raised_to(
        self,
        generation: int,
        batch: int,
        ends: Mapping[int, int],
        beside: tuple[str, ...] = (),
        clock: EventClock | None = None,
    ) -> "Tidemark":
        """P3.5: the higher of the two in each partition, never down. `beside`: the sinks that get this batch."""
        offsets = {
            partition: max(self.next_offset(partition), ends.get(partition, 0)) for partition in sorted({*self.offsets, *ends})
        }
        apart = {number: end for number, end in self.apart.items() if end > offsets.get(number, 0)}
        moved = {"generation": generation, "batch": batch, "offsets": offsets, "beside": beside, "apart": apart, "clock": clock}
        return self.model_copy(update=moved)


class LedgerLine(_Part):
    """[start, end) of one partition, and what became of its records."""

    partition: int
    start: int
    end: int
    read: int = 0
    delivered: int = 0
    quarantined: int = 0
    rejected: int = 0
    filtered: int = 0
    superseded: int = 0
    duplicates: int = 0
    late: int = 0
    lost: int = 0
    outputs: int = 0  # of a Kafka sink, beside delivered: a record may have none, one or many


class Note(_Part):
    format: Literal[1] = Field(default=1, alias="tidemark_note")
    stream: str
    sink: str
    kind: Kind
    generation: int
    owner: str
    deployment: str
    spec_hash: str
    looked: int  # the last version whose foreign changes were judged before this commit
    first: bool = False  # a fence in a sink that has never held a tidemark
    pinned: bool = False  # an adoption whose offsets the next start must not resolve anew: something was delivered before
    tidemark: Tidemark | None = None
    builds_on: Tidemark | None = Field(default=None, alias="from")
    made_by: str | None = None  # the spec hash of the newest batch
    quarantine: tuple[int, int] | None = None  # generation and batch of the quarantine's newest commit
    accepted: tuple[int, ...] = ()  # versions of foreign changes that a person accepted
    ledger: tuple[LedgerLine, ...] = ()

    def is_of(self, stream: str, sink: str) -> bool:
        return (self.stream, self.sink) == (stream, sink)

    def to_json(self) -> str:
        said = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return json.dumps({"tidemark_note": self.format, **said}, separators=(",", ":"))


def read_note(version: int, text: str | None) -> Note | None:
    """None for a commit that is not ours."""
    if text is None or '"tidemark_note"' not in text:
        return None
    try:
        return Note.model_validate_json(text)
    except ValidationError as error:
        raise NoteUnreadable(
            f"Version {version} has a note that this version of Tidemark cannot read: {error.errors()[0]['msg']}.",
            state="Nothing was written.",
            next_step="Run the version of Tidemark that wrote it, or a newer one.",
            version=version,
        ) from error
