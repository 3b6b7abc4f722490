"""Every damage of a real checkpoint is named; from what is whole before it, a real query goes on with the right state."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.checkpoints.carry_over import carry_over
from include.checkpoints.examine import Examined, examine
from include.checkpoints.seed import make_checkpoint
from include.checkpoints.spark_log import last_committed
from include.local_stack.stack import Stack
from tests.integration.checkpoints.stateful_query import StatefulQuery, Sums

OPERATORS = 2
FIRST, THEN, AT_LAST = 200, 200, 100  # records: with snapshots, with changelogs, and left for those who go on


@dataclass(frozen=True)
class Made:
    query: StatefulQuery
    checkpoint: Path
    changed: dict[int, Sums]
    last: int

    def examine(self, checkpoint: Path) -> Examined:
        return examine(checkpoint, self.query.topic, OPERATORS)

    def result_of_going_on(self, checkpoint: Path, through: int) -> Sums:
        """What a sink holds that had each batch up to `through`, and then those of a query on this folder."""
        result: Sums = {}
        before = {number: sums for number, sums in self.changed.items() if number <= through}
        for sums in (before | self.query.run(checkpoint)).values():
            result |= sums
        return result


@pytest.fixture(scope="module")
def made(spark: SparkSession, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Made:
    query = StatefulQuery(spark, stack)
    checkpoint = tmp_path_factory.mktemp("made") / "c000001"
    query.begin(checkpoint)
    query.send(FIRST)
    changed = query.run(checkpoint, changelogs=False)
    query.send(THEN)
    changed |= query.run(checkpoint)
    query.send(AT_LAST)
    last = last_committed(checkpoint)
    assert last is not None
    assert last == max(changed) >= 9
    assert (checkpoint / "offsets" / f".{last}.crc").exists()  # Hadoop's checksums, as drivers have them
    return Made(query, checkpoint, changed, last)


@pytest.fixture
def copy(made: Made, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.checkpoint, tmp_path / "c000001"))


@pytest.fixture(params=["with Hadoop's checksums", "without"])
def either_copy(request: pytest.FixtureRequest, copy: Path) -> Path:
    if request.param == "without":
        for file in copy.rglob(".*.crc"):
            file.unlink()
    return copy


def kinds(made: Made, checkpoint: Path) -> dict[str, Path]:
    """One file of each kind that the newest state needs."""
    store = checkpoint / "state" / "1" / "0"
    snapshot = max(store.glob("*.zip"), key=lambda file: int(file.stem))
    return {
        "metadata": checkpoint / "metadata",
        "READY": checkpoint / "READY",
        "start": checkpoint / "sources" / "0" / "0",
        "offsets": checkpoint / "offsets" / str(made.last),
        "commits": checkpoint / "commits" / str(made.last),
        "changelog": store / f"{made.last + 1}.changelog",
        "snapshot": snapshot,
        "SST": sorted(store.glob("SSTs/*.sst"))[-1],
        "operator": checkpoint / "state" / "1" / "_metadata" / "metadata",
    }


KINDS = ("metadata", "READY", "start", "offsets", "commits", "changelog", "snapshot", "SST", "operator")


def named(found: Examined) -> set[str]:
    assert all(damage.what and damage.repair.endswith(".") for damage in found.damages)
    return {damage.file for damage in found.damages}


def test_a_whole_folder_has_no_damage(made: Made, either_copy: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in either_copy.rglob("*")}
    found = made.examine(either_copy)
    assert found.damages == ()
    assert found.whole is not None
    assert found.whole.batch == made.last
    assert sum(found.whole.ends.values()) == FIRST + THEN
    assert {file: file.stat().st_mtime_ns for file in either_copy.rglob("*")} == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_off_at_any_byte_is_named(made: Made, either_copy: Path, kind: str) -> None:
    file = kinds(made, either_copy)[kind]
    content = file.read_bytes()
    chance = random.Random(kind)  # noqa: S311 - the same bytes in every run
    for length in {0, len(content) - 1, *(chance.randrange(len(content)) for _ in range(20))}:
        file.write_bytes(content[:length])
        found = made.examine(either_copy)
        assert str(file.relative_to(either_copy)) in named(found), length
        assert found.whole is None or found.whole.batch < made.last, length


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_missing_is_named(made: Made, either_copy: Path, kind: str) -> None:
    file = kinds(made, either_copy)[kind]
    file.unlink()
    found = made.examine(either_copy)
    if kind == "commits":  # as if the batch had not been finished: it runs again
        assert found.damages == ()
    elif kind == "snapshot":  # which nothing names but the changelogs that begin after it
        assert any(damage.file.endswith(".changelog") and damage.what == "is missing" for damage in found.damages)
    else:
        assert str(file.relative_to(either_copy)) in named(found)
    assert found.whole is None or found.whole.batch < made.last


@pytest.mark.parametrize("kind", ["offsets", "changelog", "snapshot"])
def test_a_query_goes_on_from_what_is_whole_with_the_right_state(made: Made, copy: Path, tmp_path: Path, kind: str) -> None:
    file = kinds(made, copy)[kind]
    file.write_bytes(file.read_bytes()[:-1])
    whole = made.examine(copy).whole
    assert whole is not None
    assert whole.batch < made.last
    carry_over(copy, tmp_path / "c000002", whole.batch, {})
    carried = made.examine(tmp_path / "c000002")
    assert carried.damages == ()
    assert carried.whole == whole
    before = {each: each.read_bytes() for each in copy.rglob("*") if each.is_file()}
    assert made.result_of_going_on(tmp_path / "c000002", whole.batch) == made.query.expected()
    assert {each: each.read_bytes() for each in copy.rglob("*") if each.is_file()} == before


def test_a_query_without_the_state_gets_it_wrong(made: Made, tmp_path: Path) -> None:
    """The must-fail twin: the same offsets in an empty folder."""
    whole = made.examine(made.checkpoint).whole
    assert whole is not None
    make_checkpoint(tmp_path / "c000002", made.query.topic, whole.ends)
    assert made.result_of_going_on(tmp_path / "c000002", whole.batch) != made.query.expected()
