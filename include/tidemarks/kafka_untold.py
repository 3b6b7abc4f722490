"""The commit that a driver into Kafka made, slot by slot, and had not told in the log when it died."""

from collections.abc import Iterable

from include.tidemarks.kafka_records import Mark
from include.tidemarks.note import Note, Tidemark
from include.tidemarks.sink_state import TidemarkBroken


def untold(marks: Iterable[Mark], told: Tidemark | None) -> Note | None:
    """The commit of a driver that died before it wrote its log: all that its slots have committed above what is told."""
    above = [mark for mark in marks if told is None or mark.height > (told.epoch, told.next_offset(mark.line.partition))]
    if not above:
        return None
    note = max((mark.note for mark in above), key=lambda one: (one.generation, one.tidemark.batch if one.tidemark else 0))
    if told is None or note.tidemark is None or any(mark.note.builds_on != told for mark in above):
        raise TidemarkBroken(
            f"Marks of generation {note.generation} of {note.stream}.{note.sink} build on a tidemark that its log has not.",
            state="Nothing was written.",
            next_step="Find out who deleted records of its tidemarks topic; nothing but compaction may remove them.",
        )
    lines = sorted((mark.line for mark in above), key=lambda line: line.partition)
    ends = {line.partition: line.end for line in lines}
    mark = note.tidemark
    moved = told.raised_to(mark.generation, mark.batch, ends, mark.beside, mark.clock)
    return note.model_copy(update={"tidemark": moved, "ledger": tuple(lines)})
