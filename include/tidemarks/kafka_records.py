"""What stands in the topic `<output>.tidemarks` of a Kafka sink (P5): in partition 0 the log of commits, in the others the marks.

Executors read it too, in each attempt: so nothing heavy is imported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from include.contract.identity import tidemarks_topic
from include.tidemarks.commit import LogUnreadable
from include.tidemarks.note import LedgerLine, Note, read_note
from include.topics.committed import read_committed

LOG_PARTITION = 0
FIRST_MARKS_PARTITION = 1
KEPT_COMMITS = 50_000  # newer ones replace them when the topic is compacted: three days of a commit each five seconds


class LogRecord(BaseModel):
    """What a commit of the log says beside its note."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int
    note: str
    records: int = 0  # that were delivered, as the slots have counted them
    slots: int = 1  # the most that ever wrote: each has a transactional id to be fenced
    marks: int = 1  # partitions of marks; never changes
    output_id: str = ""  # the topic's own id
    output_ends: dict[int, int] = Field(default_factory=dict)  # no output of this commit or an earlier one lies behind them
    rejects_ends: dict[int, int] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        return str(self.version % KEPT_COMMITS)


def read_log_record(topic: str, offset: int, value: bytes) -> LogRecord:
    try:
        return LogRecord.model_validate_json(value)
    except ValidationError as error:
        raise LogUnreadable(
            f"Offset {offset:,} of partition {LOG_PARTITION} of {topic} is no commit of this sink: {error.errors()[0]['msg']}.",
            state="Nothing was written.",
            next_step="Find out who writes to that topic. If it was a newer version of Tidemark, run that one.",
            offset=offset,
        ) from error


def newest_note(address: str, topic: str, span: tuple[int, int]) -> Note | None:
    """Of the newest generation that wrote between two offsets of the log."""
    log = tidemarks_topic(topic)
    records = read_committed(address, log, {LOG_PARTITION: span})
    told = [read_log_record(log, record.offset, record.value) for record in records if record.value is not None]
    notes = [note for one in told if (note := read_note(one.version, one.note))]
    return max(notes, key=lambda note: note.generation, default=None)


def marks_partition(source_partition: int, marks: int) -> int:
    return FIRST_MARKS_PARTITION + source_partition % marks


@dataclass(frozen=True)
class Mark:
    """Committed with the outputs that it tells of: the note of its batch, with one line of the ledger, its partition's own."""

    note: Note
    line: LedgerLine

    @property
    def height(self) -> tuple[int, int]:
        """An epoch counts before any offset in it."""
        return (self.note.tidemark.epoch if self.note.tidemark else 0), self.line.end


def read_marks(address: str, topic: str, spans: Mapping[int, tuple[int, int]]) -> dict[int, Mark]:
    """By source partition, the highest of each. `topic` is the output; the spans are of the partitions of its marks."""
    found: dict[int, Mark] = {}
    for record in read_committed(address, tidemarks_topic(topic), spans):
        note = read_note(record.offset, record.value.decode()) if record.value else None
        for line in note.ledger if note else ():
            mark = Mark(note, line) if note else None
            if mark and (line.partition not in found or found[line.partition].height < mark.height):
                found[line.partition] = mark
    return found
