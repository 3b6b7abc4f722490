"""A column that is new in the stream file: refused with the difference, or added to the table by the commit that first has it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from jobs.sink import SchemaDiffers
from tests.latest import LatestStream, rows_of
from tests.streams import TrialStream, at, crash

GROWN = {"day": "date(ts)", "amount_cents": "cast(amount * 100 as bigint)", "weekday": "weekday(ts)"}
KINDS = {
    "delta_append": {"kind": "delta_append", "partition_by": ["day"]},
    "delta_merge": {"kind": "delta_merge", "key": ["user_id"], "order": "ts", "deleted": "gone"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_column_is_refused_or_added_with_its_first_batch(
    kind: str, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """A crash right after the commit that adds it, and one right before: the replay is exact on either side."""
    stream = LatestStream(stack, tmp_path) if kind == "delta_merge" else TrialStream(stack, tmp_path)
    _write(stream, kind)
    _send(stream)
    stream.run(spark)
    before = {_place(row) for row in rows_of(stream.table)}
    _write(stream, kind, select=GROWN)
    with pytest.raises(SchemaDiffers) as refused:
        stream.run(spark)
    assert "column weekday is absent there, int in the file" in str(refused.value)
    assert "`schema_changes: add_columns`" in refused.value.next_step
    _write(stream, kind, select=GROWN, schema_changes="add_columns")
    _send(stream)
    for point in (Failpoint.BEFORE_COMMIT, Failpoint.AFTER_COMMIT):
        with at(point, crash), pytest.raises(FailpointReached):
            stream.run(spark)
        has_it = "weekday" in rows_of(stream.table)[0]
        assert has_it is (point is Failpoint.AFTER_COMMIT)
    stream.run(spark)
    assert _wrong(stream) == []
    assert {row["weekday"] is None for row in rows_of(stream.table) if _place(row) in before} <= {True}
    assert {row["weekday"] for row in rows_of(stream.table) if _place(row) not in before} == {0}


def test_what_is_no_addition_is_refused_by_either_policy(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    _write(stream, "delta_append", schema_changes="add_columns")
    stream.send(10)
    stream.run(spark)
    _write(stream, "delta_append", schema_changes="add_columns", select={"day": "date(ts)", "amount_cents": "amount * 100"})
    with pytest.raises(SchemaDiffers, match=r"column amount_cents is bigint there, decimal\(\d+,2\) in the file"):
        stream.run(spark)
    _write(stream, "delta_append", schema_changes="add_columns", select={"day": "date(ts)"})
    with pytest.raises(SchemaDiffers, match="column amount_cents is bigint there, absent in the file"):
        stream.run(spark)


def _write(stream: TrialStream, kind: str, select: dict[str, str] | None = None, **more: object) -> None:
    sink = {**KINDS[kind], "table": stream.name, **more}
    changes = {"select": select} if select else {}
    TrialStream.write_file(stream, sinks={"lake": sink}, reconcile__unique=[], **changes)


def _send(stream: TrialStream) -> None:
    if isinstance(stream, LatestStream):
        stream.send_orders(100)
    else:
        stream.send(100)


def _wrong(stream: TrialStream) -> list[str]:
    return stream.wrong_keys() if isinstance(stream, LatestStream) else stream.problems()


def _place(row: dict[str, object]) -> tuple[object, object]:
    return row["_partition"], row["_offset"]
