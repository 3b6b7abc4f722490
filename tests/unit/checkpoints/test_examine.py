"""What is damaged in a folder is named with its repair; what is whole before it is found."""

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from include.checkpoints.about import ABOUT, About, mark_damaged
from include.checkpoints.examine import examine
from include.checkpoints.seed import plan_batch
from tests.unit.checkpoints.stateful_folder import METADATA, TOPIC, add_snapshot, stateful_folder

LAST = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Batches 0 to 5; a snapshot of version 3, changelogs of 1 to 6."""
    return stateful_folder(tmp_path / "c000001", LAST + 1, more={ABOUT: About("a hash").to_json()})


def whole_and_named(folder: Path, operators: int = 1) -> tuple[int | None, dict[str, str]]:
    found = examine(folder, TOPIC, operators)
    return found.whole.batch if found.whole else None, {damage.file: damage.what for damage in found.damages}


def lose(*names: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        for name in names:
            shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()

    return act


def tear(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-1]) and None


CASES: dict[str, tuple[Callable[[Path], None], int | None, set[str]]] = {
    "nothing": (lambda folder: None, 5, set()),
    "no metadata": (lose("metadata"), None, {"metadata"}),
    "torn metadata": (tear("metadata"), None, {"metadata"}),
    "no READY": (lose("READY"), None, {"READY"}),
    "torn READY": (tear("READY"), None, {"READY"}),
    "no start": (lose("sources/0/0"), None, {"sources/0/0"}),
    "torn start": (tear("sources/0/0"), None, {"sources/0/0"}),
    "no about.json": (lose(ABOUT), None, {ABOUT}),
    "torn newest offsets": (tear("offsets/5"), 4, {"offsets/5"}),
    "torn newest commit": (tear("commits/5"), 4, {"commits/5"}),
    "newest not committed": (lose("commits/5"), 4, set()),
    "gap in offsets": (lose("offsets/3"), 2, {"offsets/3"}),
    "gap in commits": (lose("commits/3"), 2, {"commits/3"}),
    "torn in the middle": (tear("offsets/4"), 3, {"offsets/4"}),
    "torn at the beginning": (tear("offsets/0"), None, {"offsets/0"}),
    "old ones removed by Spark": (lose("offsets/0", "commits/0", "offsets/1", "commits/1"), 5, set()),
    "old ones half removed": (lose("offsets/0", "offsets/1", "commits/0"), 5, {"offsets/1"}),
    "no newest changelog": (lose("state/0/1/6.changelog"), 4, {"state/0/1/6.changelog"}),
    "torn newest changelog": (tear("state/0/1/6.changelog"), 4, {"state/0/1/6.changelog"}),
    "torn checksum file": (tear("state/0/1/6.changelog.crc"), 4, {"state/0/1/6.changelog"}),
    "torn snapshot, older state serves": (tear("state/0/1/3.zip"), 5, {"state/0/1/3.zip"}),
    "no SST, older state serves": (lose("state/0/1/SSTs"), 5, {"state/0/1/SSTs/000003-1.sst"}),
    "SST of other size": (tear("state/0/1/SSTs/000003-1.sst"), 5, {"state/0/1/SSTs/000003-1.sst"}),
    "no snapshot, all changelogs": (lose("state/0/1/3.zip"), 5, set()),
    "no partition": (lose("state/0/1"), None, {"state/0/1/6.changelog"}),
    "no operator": (lose("state/0"), None, {"state/0/_metadata/metadata"}),
    "no schema": (lose("state/0/0/_metadata/schema"), None, {"state/0/0/_metadata/schema"}),
    "marked": (lambda folder: mark_damaged(folder, "it failed"), None, {"DAMAGED"}),
}


@pytest.mark.parametrize("case", CASES)
def test_each_damage_is_named_and_what_is_whole_is_found(folder: Path, case: str) -> None:
    act, whole, names = CASES[case]
    act(folder)
    found, named = whole_and_named(folder)
    assert found == whole
    assert names <= set(named)
    if not names:
        assert named == {}


def test_the_repair_says_where_a_start_goes_on(folder: Path) -> None:
    tear("offsets/5")(folder)
    (damage,) = examine(folder, TOPIC).damages
    assert str(damage).startswith("offsets/5 holds ")
    assert damage.repair == "A start goes on after batch 4, the newest that is whole, and runs those after it again."
    (folder / "metadata").unlink()
    assert (
        examine(folder, TOPIC)
        .damages[0]
        .repair.startswith("A start passes over this folder, and rebuilds the state from Kafka if")
    )


def test_an_operator_that_is_gone_altogether_is_missed_if_its_number_is_known(folder: Path) -> None:
    assert whole_and_named(folder, operators=1) == (LAST, {})
    whole, named = whole_and_named(folder, operators=2)
    assert whole is None
    assert named["state/1/_metadata/metadata"] == "is missing"


def test_a_planned_batch_is_no_damage(folder: Path) -> None:
    plan_batch(folder, 6, f'v1\n{METADATA}\n{{"{TOPIC}":{{"0":70}}}}'.encode())
    assert whole_and_named(folder) == (LAST, {})


def test_a_commit_that_two_planned_batches_skip_is_a_gap(folder: Path) -> None:
    for batch in (6, 7):
        plan_batch(folder, batch, f'v1\n{METADATA}\n{{"{TOPIC}":{{"0":70}}}}'.encode())
    assert whole_and_named(folder) == (LAST, {"commits/6": "is missing"})


def test_a_folder_without_a_batch_is_neither_whole_nor_damaged(tmp_path: Path) -> None:
    assert whole_and_named(stateful_folder(tmp_path / "c000001", 0)) == (None, {})


def test_a_changed_byte_is_found_by_hadoops_checksum(folder: Path) -> None:
    file = folder / "state" / "0" / "1" / "6.changelog"
    content = file.read_bytes()
    recorded = b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(content).to_bytes(4, "big")
    file.with_name(".6.changelog.crc").write_bytes(recorded)
    assert whole_and_named(folder) == (LAST, {})
    file.write_bytes(content.replace(b"c", b"C", 1))
    whole, named = whole_and_named(folder)
    assert whole == LAST - 1
    assert named == {"state/0/1/6.changelog": "is not as it was written: Hadoop's checksum differs"}


def test_of_what_spark_removed_only_the_newest_state_is_asked(folder: Path) -> None:
    """Changelogs 1 to 3 are gone, as after a clean-up; then the snapshot tears: nothing is whole, and one file is to blame."""
    for partition in ("0", "1"):
        for version in (1, 2, 3):
            (folder / "state" / "0" / partition / f"{version}.changelog").unlink()
    assert whole_and_named(folder) == (LAST, {})
    tear("state/0/1/3.zip")(folder)
    assert whole_and_named(folder) == (None, {"state/0/1/3.zip": "cannot be unpacked"})


def test_the_newest_snapshot_is_preferred(folder: Path) -> None:
    add_snapshot(folder / "state" / "0" / "0", 5)
    for version in range(1, 6):
        (folder / "state" / "0" / "0" / f"{version}.changelog").unlink()
    assert whole_and_named(folder) == (LAST, {})
