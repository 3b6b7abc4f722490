"""Which files of a table are rewritten, and which of them in one commit. Pure.

A file is worth it if it is small and there is another small one beside it, or if many of its rows are marked as deleted. Files of
one partition stay together; of few files one commit makes as many as hold between one and two times the wanted size.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

MARKED_SHARE = 0.1  # of a file's rows: from there on every query reads a tenth for nothing
MOST_FILES = 2_000  # in one commit: a task opens some hundred a second, and each stands twice in the commit


class Limit(NamedTuple):
    """Of what one commit rewrites."""

    bytes: int
    files: int = MOST_FILES


@dataclass(frozen=True)
class TableFile:
    path: str
    partition: tuple[tuple[str, str | None], ...]
    bytes: int
    rows: int | None  # None if the log does not say; marked ones included
    marked: int = 0
    may_be_older: bool = False

    @property
    def has_many_marked(self) -> bool:
        return self.marked >= MARKED_SHARE * (self.rows or self.marked or 1)


def groups_to_rewrite(files: Iterable[TableFile], file_bytes: int, limit: Limit) -> list[list[TableFile]]:
    """Each group is one commit."""
    worth_it: list[TableFile] = []
    for _, beside in groupby(sorted(files, key=_place), key=lambda file: file.partition):
        small_or_marked = [file for file in beside if file.has_many_marked or file.bytes < file_bytes // 2]
        if len(small_or_marked) > 1 or any(file.has_many_marked for file in small_or_marked):
            worth_it += small_or_marked
    return [group for group in split(worth_it, limit) if len(group) > 1 or group[0].has_many_marked]


def split(files: Iterable[TableFile], limit: Limit) -> Iterator[list[TableFile]]:
    """In their order, each part within the limit or a single file."""
    part: list[TableFile] = []
    total = 0
    for file in files:
        if part and (len(part) == limit.files or total + file.bytes > limit.bytes):
            yield part
            part, total = [], 0
        part.append(file)
        total += file.bytes
    if part:
        yield part


def files_to_make(total_bytes: int, file_bytes: int) -> int:
    return max(1, total_bytes // file_bytes)


def _place(file: TableFile) -> tuple[list[tuple[str, str]], str]:
    return [(name, value or "") for name, value in file.partition], file.path
