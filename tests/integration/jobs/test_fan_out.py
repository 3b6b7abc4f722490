"""However many sinks a batch goes to, its records are read and made into rows once (P3.2); and the sink that fails is named."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.contract.catalog import Stream
from include.local_stack.stack import Stack
from jobs import batch, run_stream
from jobs.exits import ended_by
from jobs.failpoints import Failpoint
from jobs.transform import rows_of
from tests.streams import TrialStream, at

RECORDS, BAD = 120, 4


def made_into_rows(monkeypatch: pytest.MonkeyPatch, stack: Stack, spark: SparkSession, folder: Path, sinks: int, bad: int) -> int:
    """How often a record was decoded, by all that a driver does for one batch."""
    stream = TrialStream(stack, folder)
    tables = {f"sink{number}": {"kind": "delta_append", "table": f"{stream.name}_{number}"} for number in range(sinks)}
    stream.write_file(sinks=tables, source__max_records_per_batch=1000)
    stream.send(RECORDS, bad=bad)
    seen = spark.sparkContext.accumulator(0)

    def counted_rows(records: DataFrame, stream: Stream) -> DataFrame:
        counting = F.udf(lambda offset: (seen.add(1), offset)[1], "bigint").asNondeterministic()  # or Spark may call it twice
        return rows_of(records.withColumn("_offset", counting("_offset")), stream)

    monkeypatch.setattr(run_stream, "rows_of", counted_rows)
    stream.run(spark)
    assert [len(stream.rows(f"_{number}")) for number in range(sinks)] == [RECORDS] * sinks
    return seen.value


@pytest.mark.parametrize("sinks", [1, 2, 3])
def test_each_record_is_made_into_a_row_once(
    sinks: int, monkeypatch: pytest.MonkeyPatch, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    assert made_into_rows(monkeypatch, stack, spark, tmp_path, sinks, bad=0) == RECORDS


def test_bad_records_let_the_batch_be_read_once_more_to_be_explained(
    monkeypatch: pytest.MonkeyPatch, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    assert made_into_rows(monkeypatch, stack, spark, tmp_path, 3, BAD) == 2 * (RECORDS + BAD)


def test_without_keeping_them_each_sink_would_read_the_records_again(
    monkeypatch: pytest.MonkeyPatch, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    monkeypatch.setattr(batch, "kept", nullcontext)
    assert made_into_rows(monkeypatch, stack, spark, tmp_path, 3, bad=0) == 3 * RECORDS


def test_a_sink_whose_place_cannot_be_written_is_named(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Nor does the other one get the batch; the next start delivers it to both."""
    stream = TrialStream(stack, tmp_path)
    lake = {"kind": "delta_append", "table": stream.name}
    stream.write_file(sinks={"also": {"kind": "delta_append", "table": f"{stream.name}_also"}, "lake": lake})
    aside, times = stream.table.with_name(f"{stream.name}_aside"), iter((1, 2))
    stream.send(RECORDS)

    def break_the_second() -> None:
        if next(times) == 2:
            stream.table.rename(aside)
            stream.table.write_text("no folder")

    with at(Failpoint.BEFORE_WRITE, break_the_second), pytest.raises(Exception, match=stream.name) as ended:
        stream.run(spark)
    assert f"on its way to sink {stream.name}.lake." in ended_by(ended.value).happened
    assert stream.rows("_also") == []
    stream.table.unlink()
    aside.rename(stream.table)
    stream.run(spark)
    assert [len(stream.rows(suffix)) for suffix in ("", "_also")] == [RECORDS, RECORDS]
    assert stream.problems() == []
