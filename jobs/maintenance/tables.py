"""The Delta tables of a stream: its sinks in the lake and its quarantine, and how the rows of each lie best."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from include.contract.catalog import Stream
from include.contract.identity import QUARANTINE
from include.contract.places import Places
from include.contract.stream_spec import DeltaMerge, LakeTable
from include.tidemarks.note import Kind, Note
from include.tidemarks.sink_state import SinkState, read_sink

AS_THEY_CAME = ("_kafka_timestamp",)  # the records of a window, and of any question about some time, lie together


@dataclass(frozen=True)
class MaintainedTable:
    stream: str
    sink: str
    path: str
    cluster_by: tuple[str, ...] = AS_THEY_CAME
    purge_after: timedelta | None = None
    is_merged: bool = False  # its stream marks rows in files that are there, so each can make the other lose

    @property
    def name(self) -> str:
        return f"{self.stream}.{self.sink}"

    def state(self) -> SinkState:
        return read_sink(self.path, self.stream, self.sink)


def tables_of(stream: Stream, places: Places) -> Iterator[MaintainedTable]:
    for name, place in places.sinks.items():
        settings = stream.spec.sinks[name]
        if isinstance(settings, LakeTable):
            yield _table(stream.name, name, str(place), settings)
    yield MaintainedTable(stream.name, QUARANTINE, places.quarantine)


def _table(stream: str, sink: str, path: str, settings: LakeTable) -> MaintainedTable:
    """A merge finds its files by their ranges of keys, so they should be narrow."""
    if isinstance(settings, DeltaMerge):
        return MaintainedTable(stream, sink, path, tuple(settings.cluster_by or settings.key), settings.purge_deleted_after, True)
    return MaintainedTable(stream, sink, path, tuple(settings.cluster_by) or AS_THEY_CAME)


def maintain_note(state: SinkState) -> Note:
    """Says as much of the stream as the commits before it, and nothing of records: no tidemark, no ledger."""
    if state.note is None:
        raise ValueError(f"{state.sink} has no tidemark: it is left alone")
    own = {"kind": Kind.MAINTAIN, "generation": state.generation, "owner": state.owner or state.note.owner}
    of_records = {"tidemark": None, "builds_on": None, "ledger": (), "accepted": (), "first": False}
    return state.note.model_copy(update={**own, **of_records, "pinned": state.note.pinned or state.restored})
