"""A sink as it stands: its newest generation, the tidemark that holds, and what others did since (P1.5, P4).

Used by take-over in the driver and by start plans. Reads only.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import transaction_app_id
from include.contract.places import Place
from include.tidemarks.commit import Commit, LogUnreadable, SinkLog
from include.tidemarks.logs import looking_at
from include.tidemarks.note import Kind, Note, Tidemark, generation_of


class ForeignTidemark(StreamFailure):
    """The table belongs to another stream or sink."""

    exit_class = ExitClass.CONFIGURATION


class RowsWithoutTidemark(StreamFailure):
    """The table has rows, but nobody knows which records they are."""

    exit_class = ExitClass.CONFIGURATION


class TidemarkLost(StreamFailure):
    """The sink was written before, but its tidemark is gone."""

    exit_class = ExitClass.SINK_WENT_BACK


class TidemarkBroken(StreamFailure):
    """A batch was built on a tidemark that the table no longer has."""

    exit_class = ExitClass.SINK_WENT_BACK


@dataclass(frozen=True)
class ForeignChange:
    """A commit that changed rows and was not ours."""

    version: int
    operation: str
    what: str

    def in_(self, where: str) -> str:
        return f"Somebody's {self.operation} {self.what} in {where} (version {self.version})."


@dataclass(frozen=True)
class SinkState:
    """`note` holds the tidemark; None as long as the sink is new. `generation` is the newest that ever fenced the sink."""

    sink: str
    version: int | None
    generation: int
    owner: str | None
    note: Note | None
    changes: tuple[ForeignChange, ...]
    restored: bool = False  # the tidemark holds because a person went back to it

    @property
    def tidemark(self) -> Tidemark | None:
        return self.note.tidemark if self.note else None

    @property
    def is_pinned(self) -> bool:
        """False until a first batch is committed: until then earliest and latest are resolved anew at each start."""
        return self.note is not None and (self.note.made_by is not None or self.note.pinned or self.restored)


def read_sink(place: Place, stream: str, sink: str) -> SinkState:
    with looking_at(place) as log:
        return _read(log, stream, sink)


def _read(log: SinkLog, stream: str, sink: str) -> SinkState:
    app_id, table = transaction_app_id(stream, sink), log.table
    if log.newest_version() is None:
        _refuse_rows(log, app_id)
        return SinkState(sink, None, 0, None, None, ())
    newest, newest_transaction = log.newest_with_transaction(app_id)
    standing = _Standing(log, newest, stream, sink)
    note = standing.find_tidemark()
    is_new = standing.only_first_fences and not standing.went_back
    if note is None and newest_transaction is not None and not is_new:
        raise TidemarkLost(
            f"{table} was written by {app_id} up to generation {generation_of(newest_transaction)}, but has no tidemark.",
            state="Nothing was written.",
            next_step="RESTORE the table to a version that has one; DESCRIBE HISTORY shows them.",
        )
    if note is None and newest_transaction is None:
        _refuse_rows(log, app_id)
    owner = _owner(log, newest, app_id, newest_transaction)
    held = 0 if newest_transaction is None else generation_of(newest_transaction)
    generation = max(held, note.generation if note else 0)  # Delta may be told to forget transactions
    changes = tuple(standing.changes_since(note.looked if note else -1))
    return SinkState(sink, newest, generation, owner, note, changes, standing.went_back)


def _refuse_rows(log: SinkLog, app_id: str) -> None:
    if log.has_rows():
        raise RowsWithoutTidemark(
            f"{log.table} has rows but no tidemark of {app_id}.",
            state="Nothing was written.",
            next_step="Give the sink another table, or move this one away.",
        )


def judge(commit: Commit, stream: str, sink: str) -> ForeignChange | None:
    """By what was done: our own commits, appends, compaction and vacuum pass. A RESTORE may remove nothing, yet goes back."""
    if commit.note is not None and commit.note.is_of(stream, sink):
        return None
    if commit.operation == "RESTORE":
        return ForeignChange(commit.version, commit.operation, "went back to an earlier version")
    if commit.files_removed:
        return ForeignChange(commit.version, commit.operation, f"removed {commit.files_removed} files with their rows")
    if commit.table_id is not None and commit.version > 0 and commit.operation.startswith(("CREATE", "REPLACE")):
        return ForeignChange(commit.version, commit.operation, "made the table anew")
    return None


class CopiedBatch(NamedTuple):
    version: int
    generation: int
    batch: int


def first_to_copy(log: SinkLog, after_version: int, batches: Iterable[CopiedBatch]) -> int:
    """Where a copy of the log goes on that ended with a version: behind what Delta has cleaned up meanwhile; and where the two
    part, if the place was put back to an earlier state and others were committed since. `batches` of the copy, newest first."""
    copies = iter(batches)
    newest_copy = next(copies, None)
    with suppress(LogUnreadable):  # cleaned up long ago: see below
        if log.has(after_version) and (newest_copy is None or _is_in(log, newest_copy)):
            return after_version  # the usual case, and every second
    first, newest = log.oldest_version() - 1, log.newest_version()
    if newest is None or after_version < first:
        return max(after_version, first)
    is_newest = True
    for copied in chain([newest_copy] if newest_copy else [], copies):
        if copied.version <= newest and (copied.version <= first or _is_in(log, copied)):
            return after_version if is_newest and after_version <= newest else max(copied.version, first)
        is_newest = False
    return after_version if is_newest and after_version <= newest else first


def _is_in(log: SinkLog, copied: CopiedBatch) -> bool:
    """A generation is never taken twice, so another batch of the same version has another one."""
    note = log.commit(copied.version).note
    return note is not None and note.tidemark is not None and (note.generation, note.tidemark.batch) == copied[1:]


def read_ledger(log: SinkLog, stream: str, sink: str, after_version: int, at_most: int) -> tuple[list[tuple[int, Note]], int]:
    """Batches and adoptions above a version, oldest first, and up to which version was read. Also those that a RESTORE took
    away."""
    read, found = after_version, []
    for commit in islice(log.after(read), at_most):
        read = commit.version
        if commit.note is not None and commit.note.is_of(stream, sink) and commit.note.tidemark is not None:
            found.append((commit.version, commit.note))
    return found, read


class _Standing:
    """One walk over the commits that the table still consists of, newest first, as far back as it must go."""

    def __init__(self, log: SinkLog, newest: int, stream: str, sink: str) -> None:
        self.log = log
        self.stream = stream
        self.sink = sink
        self.only_first_fences = True
        self._walk = log.standing(newest)
        self._walked: list[Commit] = []

    def find_tidemark(self) -> Note | None:
        """The newest one, if the tidemark it builds on is the one before it."""
        notes = self._tidemarks()
        version, newest = next(notes, (-1, None))
        if newest is None:
            return None
        try:
            _, before = next(notes, (-1, None))
        except LogUnreadable:  # cleaned up long ago: only a RESTORE takes a tidemark away
            if self.went_back:
                raise
            return newest
        holds = before.tidemark if before else None
        if newest.builds_on != holds:
            self._refuse(version, holds)
        return newest

    @property
    def went_back(self) -> bool:
        return any(commit.operation == "RESTORE" for commit in self._walked)

    def changes_since(self, looked: int) -> list[ForeignChange]:
        """A RESTORE is no change here: what it undid is not walked over, and what it restored is."""
        changes: list[ForeignChange] = []
        oldest_seen = 0
        for commit in self._commits():
            if commit.version <= looked:
                return changes
            oldest_seen = commit.version
            if commit.operation != "RESTORE" and (change := judge(commit, self.stream, self.sink)):
                changes.append(change)
        if oldest_seen > looked + 1:
            self.log.commit(oldest_seen - 1)  # it was cleaned up before anybody looked at it: raises
        return changes

    def _tidemarks(self) -> Iterator[tuple[int, Note]]:
        for commit in self._commits():
            note = commit.note
            if note is None:
                continue
            if not note.is_of(self.stream, self.sink):
                raise ForeignTidemark(
                    f"{self.log.table} holds the tidemark of {note.stream}.{note.sink} (version {commit.version}).",
                    state="Nothing was written.",
                    next_step="Give this sink another table.",
                )
            self.only_first_fences &= note.kind is Kind.FENCE and note.first
            if note.tidemark is not None:
                yield commit.version, note

    def _commits(self) -> Iterator[Commit]:
        """Again from the newest, without reading twice."""
        yield from self._walked
        for commit in self._walk:
            self._walked.append(commit)
            yield commit

    def _refuse(self, version: int, holds: Tidemark | None) -> None:
        shown = f"generation {holds.generation}, batch {holds.batch}" if holds else "no tidemark"
        raise TidemarkBroken(
            f"Version {version} of {self.log.table} builds on a tidemark that the table no longer had: {shown} stands before it.",
            state="Its rows lie above a gap; nothing was written.",
            next_step=f"RESTORE the table to version {version - 1}, then start the stream again: it delivers what is missing.",
            version=version,
        )


def _owner(log: SinkLog, newest: int, app_id: str, transaction_version: int | None) -> str | None:
    """Who set the newest generation. A RESTORE does not take it back, so every commit counts."""
    for version in range(newest, -1, -1) if transaction_version is not None else ():
        commit = log.commit(version)
        if commit.transactions.get(app_id) == transaction_version:
            return commit.note.owner if commit.note else None
    return None
