"""A driver is killed (SIGKILL) at each boundary; the next start delivers every record once, and the books are true."""

import signal
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from tests.streams import TrialStream
from tests.warm_jvm import lent

SECOND_BATCH = {Failpoint.IN_WRITE, Failpoint.BEFORE_COMMIT, Failpoint.AFTER_COMMIT}
ELSEWHERE = {Failpoint.IN_COPY, Failpoint.IN_TRANSACTION, Failpoint.BEFORE_MAINTENANCE}  # where no driver into Delta comes by


@pytest.mark.parametrize("point", [point for point in Failpoint if point not in ELSEWHERE], ids=str)
def test_nothing_is_lost_or_delivered_twice(point: Failpoint, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(700, bad=8, filtered=40)
    turn = "@2" if point in SECOND_BATCH else ""
    with _jvm(point, spark) as jvm:
        killed = stream.start(failpoint=f"{point}=kill{turn}", jvm=jvm)
        assert killed.wait(120) == -signal.SIGKILL, stream.log()
    stream.send(200, bad=2)
    stream.run(spark)
    assert stream.problems() == []


def _jvm(point: Failpoint, spark: SparkSession) -> AbstractContextManager[dict[str, str] | None]:
    """Where a sink's batch is under way the JVM dies with its Python; elsewhere nothing of the driver goes on in the JVM."""
    return nullcontext() if point.startswith("sink") else lent(spark)
