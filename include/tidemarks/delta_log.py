"""Reads the commits of a Delta table, one JSON file each, oldest or newest first, so the cost follows what is new.

Only `newest_with_transaction`, `has_rows` and a RESTORE to a time load the table's state; they are asked at a start.
"""

import json
import time
from collections.abc import Hashable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from include.tidemarks.commit import Commit, LogUnreadable


class DeltaLog:
    def __init__(self, table: str) -> None:
        self.table = table
        self.folder = Path(table) / "_delta_log"

    def newest_version(self) -> int | None:
        """None if there is no table."""
        return max(self._versions(), default=None)

    def commit(self, version: int) -> Commit:
        found = self._read(version)
        if found is None:
            raise self._unreadable(version)
        return found

    def _unreadable(self, version: int) -> LogUnreadable:
        return LogUnreadable(
            f"Version {version} of {self.table} is missing or damaged, so what happened there is not known.",
            state="The stream wrote nothing since.",
            next_step="Bring the table's _delta_log back from a backup.",
            version=version,
        )

    def files_changed(self, version: int) -> tuple[list[str], list[dict[str, Any]]]:
        """The paths that it removed, and what it added then, as it stands there."""
        actions = self._actions(version)
        if actions is None:
            raise self._unreadable(version)
        return [one["remove"]["path"] for one in actions if "remove" in one], [one["add"] for one in actions if "add" in one]

    def between(self, after: int, up_to: int) -> Iterator[Commit]:
        """Oldest first, each of them: one that cannot be read is an error."""
        for version in range(after + 1, up_to + 1):
            yield self.commit(version)

    def after(self, version: int) -> Iterator[Commit]:
        """Oldest first, to the newest there is now."""
        while (commit := self._read(version := version + 1)) is not None:
            yield commit

    def has(self, version: int) -> bool:
        return self._file(version).exists()

    def identity_of(self, version: int) -> Hashable | None:
        try:
            there = self._file(version).stat()
        except FileNotFoundError:
            return None
        return there.st_ino, there.st_mtime_ns

    def age_seconds(self, version: int) -> float:
        """As Delta counts it when it cleans up."""
        return time.time() - self._file(version).stat().st_mtime

    def oldest_version(self) -> int:
        """Delta cleans up old commits when a checkpoint of the log holds what they say."""
        return min(self._versions(), default=0)

    def standing(self, newest: int) -> Iterator[Commit]:
        """Newest first, only what the table still consists of: from a RESTORE it goes on at the version that was restored."""
        version = newest
        while version >= 0:
            commit = self.commit(version)
            yield commit
            version = self.restored_version(commit) if commit.operation == "RESTORE" else version - 1

    def restored_version(self, restore: Commit) -> int:
        if (version := restore.parameters.get("version")) is not None:
            return int(version)
        table = DeltaTable(self.table, version=restore.version)
        files = set(table.file_uris())
        restored_to = _time(restore)
        if restored_to is not None:
            table.load_as_version(restored_to)
        if restored_to is None or set(table.file_uris()) != files:
            raise LogUnreadable(
                f"Version {restore.version} of {self.table} restored an earlier time, but which version that was is not clear.",
                state="Nothing was written.",
                next_step="RESTORE the table once more, TO VERSION AS OF.",
                version=restore.version,
            )
        return table.version()

    def newest_with_transaction(self, app_id: str) -> tuple[int, int | None]:
        """The newest version, and the transaction version that the table holds there: a state outlives its commit files."""
        table = DeltaTable(self.table)
        return table.version(), table.transaction_version(app_id)

    def has_rows(self) -> bool:
        return self.newest_version() is not None and bool(DeltaTable(self.table).file_uris())

    def _versions(self) -> Iterator[int]:
        if self.folder.is_dir():
            yield from (int(file.stem) for file in self.folder.glob("*.json") if file.stem.isdecimal())

    def _file(self, version: int) -> Path:
        return self.folder / f"{version:020d}.json"

    def _read(self, version: int) -> Commit | None:
        """None if it is not there."""
        actions = self._actions(version)
        try:
            return None if actions is None else _parse(version, actions)
        except (ValueError, TypeError, KeyError) as error:
            raise self._unreadable(version) from error

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        try:
            lines = self._file(version).read_bytes().split(b"\n")  # not splitlines: a text may hold other ends of line
            return [json.loads(line) for line in lines if line]
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._unreadable(version) from error


def _time(restore: Commit) -> datetime | None:
    """Spark writes the time as text, delta-rs in milliseconds."""
    if (text := restore.parameters.get("timestamp")) is not None:
        return datetime.fromisoformat(str(text).replace(" ", "T") + "+00:00")
    if (milliseconds := restore.parameters.get("datetime")) is not None:
        return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    return None


def _parse(version: int, actions: list[dict[str, Any]]) -> Commit:
    removed = {action["remove"]["path"] for action in actions if "remove" in action}
    added: list[dict[str, Any]] = [
        action["add"] for action in actions if "add" in action and action["add"]["path"] not in removed
    ]
    info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return Commit(
        version=version,
        operation=info.get("operation", "?"),
        parameters=info.get("operationParameters", {}),
        user_metadata=info.get("userMetadata"),
        transactions={action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action},
        files_removed=sum("remove" in action and action["remove"].get("dataChange", True) for action in actions),
        rows_added=_rows([file.get("stats") for file in added if file.get("dataChange", True)]),
        table_id=next((action["metaData"]["id"] for action in actions if "metaData" in action), None),
    )


def _rows(statistics: list[str | None]) -> int | None:
    """Of the files that are new; not of those that stay with fewer rows."""
    counts = [json.loads(text or "{}").get("numRecords") for text in statistics]
    return None if None in counts else sum(counts)
