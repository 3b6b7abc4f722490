"""The files that a table consists of, kept up to date from its commits.

Delta makes this list anew after every commit, by Spark jobs over its log: a second of every small batch. Here it is asked of
Delta once; then only new commits are read, so the cost follows them and not the table.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from include.tidemarks.delta_log import DeltaLog
from jobs.delta_transaction import DeltaTransaction


@dataclass(frozen=True)
class LiveFile:
    added: Mapping[str, Any]  # as the log has it

    @property
    def partition(self) -> Mapping[str, str | None]:
        return self.added.get("partitionValues") or {}

    @cached_property
    def least(self) -> Mapping[str, Any]:
        return self._statistics.get("minValues") or {}

    @cached_property
    def greatest(self) -> Mapping[str, Any]:
        return self._statistics.get("maxValues") or {}

    @cached_property
    def _statistics(self) -> Mapping[str, Any]:
        return dict(json.loads(self.added.get("stats") or "{}", parse_float=Decimal))


class LiveFiles:
    def __init__(self, log: DeltaLog) -> None:
        self._log = log
        self._table_id = ""
        self._version = -1
        self._files: dict[str, LiveFile] = {}

    def at(self, transaction: DeltaTransaction) -> Iterable[LiveFile]:
        if self._table_id != transaction.table_id or self._version > transaction.version:
            self._files = dict(_by_path(transaction.all_files()))
            self._table_id, self._version = transaction.table_id, transaction.version
        for version in range(self._version + 1, transaction.version + 1):
            removed, added = self._log.files_changed(version)
            for path in removed:
                self._files.pop(path, None)
            self._files.update(_by_path(added))
            self._version = version
        return self._files.values()


def _by_path(files: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, LiveFile]]:
    """A file stands in the table once, whatever marks it has."""
    return ((file["path"], LiveFile(file)) for file in files)
