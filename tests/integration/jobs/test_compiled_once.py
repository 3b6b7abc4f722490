"""A batch finds the code that Spark generated for the one before it. Numbers that change from batch to batch, offsets above all,
must not stand in that code: each batch would compile it anew, and begin without a compiled loop.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.java_class import java_class
from tests.latest import LatestStream
from tests.streams import TrialStream

WARM = 3  # batches: the second replaces rows for the first time, the third marks a file that has marks


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["delta_append", "delta_merge"])
def test_the_next_batch_compiles_nothing(kind: str, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = LatestStream(stack, tmp_path) if kind == "delta_merge" else TrialStream(stack, tmp_path)
    compiled = [0]
    stream.run(spark)  # makes its tables
    with stream.running(spark):
        for _ in range(WARM + 2):
            if isinstance(stream, LatestStream):
                stream.send_orders(90, deletes=0)
                stream.wait_until_merged()
            else:
                stream.send(90)
                stream.wait_until_delivered()
            compiled.append(_compiled(spark))
    assert compiled[-1] == compiled[WARM + 1] > 0


def _compiled(spark: SparkSession) -> int:
    return int(java_class(spark, "org.apache.spark.metrics.source.CodegenMetrics").METRIC_COMPILATION_TIME().getCount())
