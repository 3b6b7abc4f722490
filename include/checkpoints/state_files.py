"""Which files the state of one version needs, and what is wrong with them. Version N + 1 is the state after batch N.

What Spark 4.1.3 writes with RocksDB, found by trial; below `state/<operator>/`:
- `_metadata/metadata` tells the number of partitions; `0/_metadata/schema` the columns, for all partitions;
- `<partition>/V.changelog`: what batch V - 1 changed, written before its commit, also when nothing did;
- `<partition>/V.zip`: a snapshot of version V, uploaded by a background thread after every tenth version or so. The `metadata` in
  it names its files in `SSTs/`, with sizes; snapshots share those;
- beside each, checksums: see `file_damage`.
Version V needs a snapshot S <= V with its SSTs and the changelogs S + 1 to V; before the first snapshot the changelogs 1 to V.
Without changelogs each batch uploads a snapshot itself, two files and more per partition, before it is done: hence changelogs.
"""

import json
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from include.checkpoints.file_damage import what_is_wrong

Wrong = dict[str, str]  # file below the checkpoint -> what is wrong with it


@dataclass(frozen=True)
class State:
    """`wrong` may name a snapshot although the state is complete: an older one and the changelogs after it serve as well."""

    files: tuple[Path, ...]
    is_complete: bool
    wrong: Wrong


@dataclass
class StateFiles:
    """Of one checkpoint folder; each file is looked through once."""

    checkpoint: Path
    operators: int = 1  # that the query has at least
    _seen: dict[Path, str | None] = field(default_factory=dict)

    def of_version(self, version: int) -> State:
        parts = [self._of_operator(number, version) for number in range(self._operators())]
        return State(
            tuple(file for part in parts for file in part.files),
            all(part.is_complete for part in parts),
            {file: what for part in parts for file, what in part.wrong.items()},
        )

    def _operators(self) -> int:
        there = (self.checkpoint / "state").glob("*")
        return max([self.operators, *(int(folder.name) + 1 for folder in there if folder.name.isdecimal())])

    def _of_operator(self, operator: int, version: int) -> State:
        folder = self.checkpoint / "state" / str(operator)
        described = folder / "_metadata" / "metadata"
        schema = folder / "0" / "_metadata" / "schema"
        partitions = self._partitions(described)
        wrong = self._judge([described, schema])
        if partitions is None:
            return State((), is_complete=False, wrong={self._name(described): "is torn"} | wrong)
        chains = [self._of_partition(folder / str(number), version) for number in range(partitions)]
        return State(
            (described, schema, *(file for chain in chains for file in chain.files)),
            not wrong and all(chain.is_complete for chain in chains),
            wrong | {file: what for chain in chains for file, what in chain.wrong.items()},
        )

    def _of_partition(self, folder: Path, version: int) -> State:
        """From the newest snapshot that serves; Spark takes the newest that is there, so a damaged one must not be left there."""
        skipped: Wrong = {}
        first_wrong: Wrong = {}
        for base in [*sorted(_snapshots(folder, version), reverse=True), 0]:
            snapshot, broken = self._snapshot(folder, base)
            changelogs = [folder / f"{number}.changelog" for number in range(base + 1, version + 1)]
            wrong = broken | self._judge(changelogs)
            if not wrong:
                return State((*snapshot, *changelogs), is_complete=True, wrong=skipped)
            skipped |= broken
            first_wrong = first_wrong or wrong
        return State((), is_complete=False, wrong=first_wrong)

    def _snapshot(self, folder: Path, version: int) -> tuple[list[Path], Wrong]:
        """Version 0 is the empty state: it has no file."""
        if version == 0:
            return [], {}
        archive = folder / f"{version}.zip"
        sizes = self._sizes_of_ssts(archive)
        if wrong := self._judge([archive]):
            return [archive], wrong
        if sizes is None:
            return [archive], {self._name(archive): "cannot be unpacked"}
        files = {folder / "SSTs" / name: size for name, size in sizes.items()}
        return [archive, *files], self._judge([*files]) | self._of_other_size(files)

    def _of_other_size(self, files: dict[Path, int]) -> Wrong:
        wrong = {}
        for file, named in files.items():
            with suppress(FileNotFoundError):  # which is told already
                if (size := file.stat().st_size) != named:
                    wrong[self._name(file)] = f"holds {size:,} bytes, but its snapshot names {named:,}"
        return wrong

    @staticmethod
    def _sizes_of_ssts(archive: Path) -> dict[str, int] | None:
        try:
            with zipfile.ZipFile(archive) as packed:
                if packed.testzip() is not None:
                    return None
                listed = json.loads(packed.read("metadata").split(b"\n", 1)[1])
            return {file["dfsSstFileName"]: int(file["sizeBytes"]) for file in listed["sstFiles"]}
        except (OSError, zipfile.BadZipFile, ValueError, LookupError, TypeError, EOFError, NotImplementedError):
            return None

    @staticmethod
    def _partitions(described: Path) -> int | None:
        try:
            stores = json.loads(described.read_bytes().split(b"\n", 1)[1])["stateStoreInfo"]
            return max(int(store["numPartitions"]) for store in stores)
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def _judge(self, files: list[Path]) -> Wrong:
        for file in files:
            if file not in self._seen:
                self._seen[file] = what_is_wrong(file)
        return {self._name(file): what for file in files if (what := self._seen[file]) is not None}

    def _name(self, file: Path) -> str:
        return str(file.relative_to(self.checkpoint))


def _snapshots(folder: Path, up_to: int) -> list[int]:
    return [int(file.stem) for file in folder.glob("*.zip") if file.stem.isdecimal() and int(file.stem) <= up_to]
