"""One commit of a sink, whatever kind of sink it is; and the log of a sink's commits, oldest to newest, as everybody reads it."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from include.contract.exit_class import ExitClass, StreamFailure
from include.tidemarks.note import Note, read_note


class LogUnreadable(StreamFailure):
    """A version that must be read is missing or damaged."""

    exit_class = ExitClass.SINK_WENT_BACK


@dataclass(frozen=True)
class Commit:
    version: int
    operation: str
    parameters: Mapping[str, Any]
    user_metadata: str | None
    transactions: Mapping[str, int]
    files_removed: int  # with their rows: compaction, which keeps the rows, is not counted
    rows_added: int | None  # None if the log does not say
    table_id: str | None

    @cached_property
    def note(self) -> Note | None:
        return read_note(self.version, self.user_metadata)


class SinkLog(Protocol):
    """The commits of the one place that a sink writes, also those of others."""

    @property
    def table(self) -> str:
        """As it is told to a person."""

    def newest_version(self) -> int | None:
        """None if nothing was ever committed."""

    def oldest_version(self) -> int:
        """Below it, commits were cleaned up."""

    def has(self, version: int) -> bool: ...

    def identity_of(self, version: int) -> Hashable | None:
        """What tells this commit from another of the same version, after the place was put back from a backup."""

    def commit(self, version: int) -> Commit:
        """One that cannot be read is an error."""

    def between(self, after: int, up_to: int) -> Iterator[Commit]:
        """Oldest first, each of them."""

    def after(self, version: int) -> Iterator[Commit]:
        """Oldest first, to the newest there is now."""

    def standing(self, newest: int) -> Iterator[Commit]:
        """Newest first, only those that the place still consists of."""

    def restored_version(self, restore: Commit) -> int:
        """To which a RESTORE went back."""

    def newest_with_transaction(self, app_id: str) -> tuple[int, int | None]:
        """The newest version, and the highest transaction version of this application."""

    def has_rows(self) -> bool: ...
