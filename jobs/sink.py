"""What take-over and delivery ask of a sink, whatever kind it is; and the ends that every kind shares."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from pyspark.sql import Column, DataFrame

from include.contract.exit_class import ExitClass, StreamFailure
from include.control.generations import Generation
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark
from include.tidemarks.sink_state import SinkState

NOTHING = "false"  # as a condition on rows


class Fenced(StreamFailure):
    """A newer generation writes this stream."""

    exit_class = ExitClass.FENCED


class NumberTaken(Exception):
    """Another deployment fenced this sink with our number: take a higher one."""


class SinkWentBack(StreamFailure):
    """The sink no longer holds what this driver committed to it."""

    exit_class = ExitClass.SINK_WENT_BACK


class OnceMore(Exception):
    """Nothing was committed: the sink wants the batch in another form, which it knows when it is asked again."""


class ConflictLost(StreamFailure):
    """Somebody else, who is no driver of this stream, committed to the table between our look and our commit."""

    exit_class = ExitClass.INFRASTRUCTURE


class SchemaDiffers(StreamFailure):
    """The table's columns are not the stream's."""

    exit_class = ExitClass.SCHEMA


class OpenBatch(Protocol):
    """A batch that is being written: rows first, the commit when its ledger is known."""

    def write(self, rows: DataFrame) -> int:
        """The number of rows that the sink has taken, by its own count. Nobody sees them yet."""

    def commit(
        self, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None = None
    ) -> list[LedgerLine]:
        """The ledger as it was committed: what the sink refused or left out is known only then."""


@runtime_checkable
class PutsIn(Protocol):
    """An open batch that has more to do between its rows and its commit, without Spark: so Spark writes other sinks meanwhile."""

    def begin(self, tidemark: Tidemark) -> object:
        """In a thread of its own. Nobody sees it yet. A commit that was not begun does all of it."""

    def finish(self) -> None:
        """Waits until only the commit is left of what was begun. Raises what went wrong."""

    def give_up(self) -> None:
        """Takes back what is not committed; does nothing after the commit."""


class Sink(Protocol):
    """Written by the newest generation of its stream alone."""

    stream: str
    sink: str
    generation: Generation
    spec_hash: str
    refuses: str  # a condition on rows that it cannot hold; those are its rejects (P3.6)
    why_it_refuses: str
    derived: dict[str, Column]  # columns of its own, made from a row

    @property
    def tidemark(self) -> Tidemark:
        """Of this generation's newest commit."""

    @property
    def columns(self) -> list[str]:
        """Those of a row that it takes."""

    def state(self) -> SinkState: ...

    def fence(self) -> None:
        """P1.2: a compare-and-set, which succeeds only over a strictly lower number."""

    def adopt(
        self,
        state: SinkState,
        tidemark: Tidemark,
        *,
        pinned: bool,
        losses: Iterable[LedgerLine] = (),
        quarantine: tuple[int, int] | None = None,
    ) -> None:
        """P2.5. `state` was read after the fence."""

    def open_batch(self) -> OpenBatch: ...


def make_note(sink: Sink, kind: Kind, looked: int, **more: object) -> Note:
    return Note.model_validate(
        {
            "stream": sink.stream,
            "sink": sink.sink,
            "kind": kind,
            "generation": sink.generation.number,
            "owner": sink.generation.owner,
            "deployment": sink.generation.deployment,
            "spec_hash": sink.spec_hash,
            "looked": looked,
            **more,
        }
    )


def fenced(stream: str, sink: str, ours: int, newer: int) -> Fenced:
    return Fenced(
        f"Sink {sink} of {stream} was taken over: generation {newer} writes it, this is {ours}.",
        state="This driver changed nothing since.",
        sink=sink,
        generation=newer,
    )


def check_that_it_was_us(stream: str, sink: str, ours: Generation, number: int, owner: str | None) -> None:
    """A number that is not lower than ours stands in the sink: it is, if we did not learn the outcome of our own fence."""
    if owner == ours.owner:
        return
    if number == ours.number:
        raise NumberTaken
    raise fenced(stream, sink, ours.number, number)
