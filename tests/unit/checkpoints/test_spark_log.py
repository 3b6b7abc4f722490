"""What is refused in a checkpoint: anything we have not learnt to read."""

from pathlib import Path

import pytest

from include.checkpoints.seed import CheckpointExists, check_ready, make_checkpoint
from include.checkpoints.spark_log import CheckpointUnreadable, last_committed, last_planned, read_planned, read_range, read_start

DAMAGED_OFFSETS = ["[1]", "{}", '{"x":1}', '{"0":"5"}', '{"0":null}', '{"0":true}', '{"0":-2}', '{"0":1.5}']
HEADER = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "c000001"
    make_checkpoint(folder, "orders", {0: 5, 1: 7})
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text(f'v1\n{HEADER}\n{{"orders":{{"0":9,"1":7,"2":4}}}}')
    return folder


def test_a_batch_reaches_from_the_end_of_the_one_before_and_a_new_partition_from_0(checkpoint: Path) -> None:
    first = read_range(checkpoint, 0, "orders")
    assert (first.starts, first.ends) == ({0: 5, 1: 7, 2: 0}, {0: 9, 1: 7, 2: 4})
    (checkpoint / "offsets" / "1").write_text(f'v1\n{HEADER}\n{{"orders":{{"0":10,"1":8,"2":4}}}}')
    assert read_range(checkpoint, 1, "orders").starts == first.ends
    assert (last_planned(checkpoint), last_committed(checkpoint)) == (1, None)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (f'v2\n{HEADER}\n{{"orders":{{"0":9}}}}', "begins with 'v2' instead of v1"),
        ("", "begins with '' instead of v1"),
        ("v1\n", "ends after its version line"),
        (f"v1\n{HEADER}", "speaks of 0 sources"),
        (f'v1\n{HEADER}\n{{"a":{{}}}}\n{{"b":{{}}}}', "speaks of 2 sources"),
        (f'v1\n{HEADER}\n{{"payments":{{"0":9}}}}', "is about payments, not orders"),
        (f"v1\n{HEADER}\n-", "holds '-', which is no JSON object"),
        ("v1\n\x00\x00\n\x00", "which is no JSON object"),
        ('v1\n{}\n{"orders":{"0":9}}', "which are not those of a batch"),
        (f"v1\n{HEADER}\n{{}}", "is about no topic, not orders"),
        *((f'v1\n{HEADER}\n{{"orders":{damage}}}', "which are not offsets") for damage in DAMAGED_OFFSETS),
    ],
)
def test_a_file_we_cannot_read_is_refused_with_the_reason(checkpoint: Path, content: str, complaint: str) -> None:
    (checkpoint / "offsets" / "0").write_text(content)
    with pytest.raises(CheckpointUnreadable, match=complaint):
        read_planned(checkpoint, 0, "orders")


def test_a_missing_file_is_named(checkpoint: Path) -> None:
    with pytest.raises(CheckpointUnreadable, match="offsets/7 is missing"):
        read_planned(checkpoint, 7, "orders")


def test_a_made_folder_is_ready_and_a_changed_or_unfinished_one_is_not(checkpoint: Path) -> None:
    check_ready(checkpoint)
    (checkpoint / "sources" / "0" / "0").write_bytes(b'\0v1\n{"orders":{"0":6,"1":7}}')
    with pytest.raises(CheckpointUnreadable, match="sources/0/0 is not as it was made"):
        check_ready(checkpoint)
    (checkpoint / "READY").unlink()
    with pytest.raises(CheckpointUnreadable, match="READY is missing"):
        check_ready(checkpoint)


def test_a_folder_is_made_once_and_a_half_made_one_is_made_again(tmp_path: Path) -> None:
    (tmp_path / ".c000002.unfinished" / "sources").mkdir(parents=True)
    make_checkpoint(tmp_path / "c000002", "orders", {0: 1})
    assert read_start(tmp_path / "c000002", "orders") == {0: 1}
    assert [folder.name for folder in tmp_path.iterdir()] == ["c000002"]
    with pytest.raises(CheckpointExists):
        make_checkpoint(tmp_path / "c000002", "orders", {0: 0})


@pytest.mark.parametrize("start", [{}, {0: -1}, {0: 5, 1: -2}], ids=["no partition", "latest", "earliest"])
def test_a_start_that_is_not_explicit_is_refused(tmp_path: Path, start: dict[int, int]) -> None:
    with pytest.raises(ValueError, match="an offset of 0 or more for each partition"):
        make_checkpoint(tmp_path / "c000001", "orders", start)


@pytest.mark.parametrize("ready", ["", "{}", "[]", "null", "5", '{"metadata": "x"}'])
def test_a_ready_file_that_names_nothing_is_none(checkpoint: Path, ready: str) -> None:
    (checkpoint / "READY").write_text(ready)
    with pytest.raises(CheckpointUnreadable, match="READY is missing or damaged"):
        check_ready(checkpoint)
