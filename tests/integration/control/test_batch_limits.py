"""A batch that is too big for memory becomes smaller after three ends, and grows again (P3.9)."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.control.batch_limits import note_good_batches, note_too_big, read_limit
from include.control.database import ControlDatabase
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from tests.streams import TrialStream, at


def out_of_memory() -> None:
    raise MemoryError


def test_three_ends_at_the_same_offsets_halve_the_batch(
    stack: Stack, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = TrialStream(stack, tmp_path, partitions=1)
    stream.send(300)
    for _ in range(3):
        with pytest.raises(MemoryError), at(Failpoint.IN_WRITE, out_of_memory):
            stream.run(spark)
    stream.run(spark)
    assert [line["read"] for note in stream.notes() for line in note.get("ledger", ())] == [150, 150]
    assert "150 records a batch after it ran out of memory" in capsys.readouterr().out
    assert stream.problems() == []


def test_only_ends_at_the_same_offsets_count_and_ten_good_batches_double_again(stack: Stack) -> None:
    control = ControlDatabase(stack.postgres.connection("tidemark"))
    control.migrate()
    with control.transaction() as cursor:
        for start in (0, 0, 7, 7):
            note_too_big(cursor, "limits", "out of memory", {0: start}, 1000)
        assert read_limit(cursor, "limits", 1000) == 1000
        note_too_big(cursor, "limits", "out of memory", {0: 7}, 1000)
        assert read_limit(cursor, "limits", 1000) == 500
        for _ in range(3):
            note_too_big(cursor, "limits", "out of memory", {0: 7}, 500)
        assert read_limit(cursor, "limits", 1000) == 250
        note_good_batches(cursor, "limits", 9, 1000)
        assert read_limit(cursor, "limits", 1000) == 250
        note_good_batches(cursor, "limits", 1, 1000)
        assert read_limit(cursor, "limits", 1000) == 500
        note_good_batches(cursor, "limits", 10, 1000)
        assert read_limit(cursor, "limits", 1000) == 1000


def test_a_batch_never_becomes_smaller_than_one_record(stack: Stack) -> None:
    control = ControlDatabase(stack.postgres.connection("tidemark"))
    control.migrate()
    with control.transaction() as cursor:
        for _ in range(3):
            note_too_big(cursor, "smallest", "out of memory", {0: 0}, 1)
        assert read_limit(cursor, "smallest", 1000) == 1


def test_a_partition_that_moved_meanwhile_does_not_begin_the_count_anew(own_control: ControlDatabase) -> None:
    """Of a topic's slots one may be through each time while another one is not."""
    with own_control.transaction() as cursor:
        for end in (0, 40, 80):
            note_too_big(cursor, "limits", "stuck", {0: end, 1: 7}, 1000)
        assert read_limit(cursor, "limits", 1000) == 500
