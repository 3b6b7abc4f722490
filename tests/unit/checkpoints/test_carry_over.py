"""A folder made out of another one holds what the batch needs and nothing later; the other one is never changed."""

import json
import os
from pathlib import Path

import pytest

from include.checkpoints import carry_over as carrying
from include.checkpoints.about import ABOUT, About
from include.checkpoints.carry_over import CannotCarryOver, carry_over
from include.checkpoints.examine import examine
from include.checkpoints.seed import CheckpointExists, check_ready
from tests.unit.checkpoints.stateful_folder import TOPIC, contents, stateful_folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Batches 0 to 5; a snapshot of version 3."""
    return stateful_folder(tmp_path / "c000001", 6, more={ABOUT: About("old").to_json()})


def test_what_a_batch_needs_is_linked_and_nothing_later(source: Path, tmp_path: Path) -> None:
    before = contents(source)
    carry_over(source, tmp_path / "c000002", 3, {})
    found = contents(tmp_path / "c000002")
    assert {name for name in found if name.startswith(("offsets", "commits"))} == {
        f"{log}/{number}" for log in ("offsets", "commits") for number in range(4)
    }
    assert {name for name in found if name.startswith("state/0/1/")} == {
        *("state/0/1/3.zip", "state/0/1/SSTs/000003-1.sst", "state/0/1/4.changelog", "state/0/1/4.changelog.crc"),
    }
    assert (tmp_path / "c000002" / "offsets" / "3").samefile(source / "offsets" / "3")
    assert contents(source) == before
    check_ready(tmp_path / "c000002")
    whole = examine(tmp_path / "c000002", TOPIC)
    assert whole.damages == ()
    assert whole.whole is not None
    assert whole.whole.batch == 3


def test_the_callers_files_replace_those_of_the_same_name_and_their_checksums(source: Path, tmp_path: Path) -> None:
    (source / "offsets" / ".5.crc").write_bytes(b"of the old content")
    (source / f".{ABOUT}.crc").write_bytes(b"of the old content")
    more = {ABOUT: About("new", "c000001").to_json(), "offsets/5": (source / "offsets" / "4").read_bytes()}
    carry_over(source, tmp_path / "c000002", 5, more)
    found = contents(tmp_path / "c000002")
    assert {name: found[name] for name in more} == more
    assert "offsets/.5.crc" not in found
    assert f".{ABOUT}.crc" not in found
    assert json.loads(found["READY"]).keys() == {"metadata", "sources/0/0", *more}
    assert (source / ABOUT).read_bytes() == About("old").to_json()


def test_hadoops_checksums_go_with_their_files(source: Path, tmp_path: Path) -> None:
    carry_over(source, tmp_path / "c000002", 2, {})
    assert not list((tmp_path / "c000002").rglob(".*"))
    (source / "metadata").with_name(".metadata.crc").write_bytes(b"x")
    carry_over(source, tmp_path / "c000003", 2, {})
    assert (tmp_path / "c000003" / ".metadata.crc").exists()


def test_without_links_files_are_copied(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    carry_over(source, tmp_path / "c000002", 5, {})
    assert examine(tmp_path / "c000002", TOPIC).damages == ()
    assert not (tmp_path / "c000002" / "metadata").samefile(source / "metadata")


def test_files_that_a_driver_removes_meanwhile_make_it_begin_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = carrying.needed
    looks: list[int] = []

    def needed_while_a_driver_cleans_up(*args: object, **more: object) -> list[str]:
        names = listed(*args, **more)  # type: ignore[arg-type]
        (source / "offsets" / str(len(looks))).unlink()
        looks.append(1)
        return names

    monkeypatch.setattr(
        carrying, "needed", lambda *a, **m: (needed_while_a_driver_cleans_up if len(looks) < 2 else listed)(*a, **m)
    )
    carry_over(source, tmp_path / "c000002", 5, {})
    assert sorted(file.name for file in (tmp_path / "c000002" / "offsets").iterdir()) == ["2", "3", "4", "5"]
    looks.clear()
    monkeypatch.setattr(carrying, "needed", lambda *a, **m: [*listed(*a, **m), "offsets/0"])
    with pytest.raises(CannotCarryOver, match=r"in 5 attempts: .*offsets/0 vanished"):
        carry_over(source, tmp_path / "c000003", 5, {})
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["c000001", "c000002"]


def test_a_batch_whose_state_or_commit_is_not_there_is_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotCarryOver, match=r"does not hold the state after batch 6: state/0/0/7.changelog is missing"):
        carry_over(source, tmp_path / "c000002", 6, {})
    (source / "commits" / "5").unlink()
    with pytest.raises(CannotCarryOver, match=r"commits/5 vanished"):
        carry_over(source, tmp_path / "c000002", 5, {})
    assert [folder.name for folder in tmp_path.iterdir()] == ["c000001"]


def test_a_damaged_snapshot_is_left_behind(source: Path, tmp_path: Path) -> None:
    """Spark would take it, for it is the newest."""
    (source / "state" / "0" / "1" / "3.zip").write_bytes(b"torn")
    carry_over(source, tmp_path / "c000002", 5, {})
    assert not (tmp_path / "c000002" / "state" / "0" / "1" / "3.zip").exists()
    assert examine(tmp_path / "c000002", TOPIC).damages == ()


def test_a_folder_is_made_once(source: Path, tmp_path: Path) -> None:
    carry_over(source, tmp_path / "c000002", 4, {})
    with pytest.raises(CheckpointExists):
        carry_over(source, tmp_path / "c000002", 5, {})
