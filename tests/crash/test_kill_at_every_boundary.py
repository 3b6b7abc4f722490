"""A driver is killed (SIGKILL) at each boundary; the next start delivers every record once, and the books are true.

In most cases its Python alone, in a JVM that is lent to it: `make crash-matrix` kills the JVM too, at every boundary of a sink.
"""

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
ELSEWHERE = {  # where no driver into Delta comes by
    *(Failpoint.AFTER_STATE, Failpoint.IN_COPY, Failpoint.IN_TRANSACTION, Failpoint.BEFORE_MAINTENANCE),
    *(Failpoint.BEFORE_SLOT, Failpoint.AFTER_OUTPUTS, Failpoint.AFTER_MARKS, Failpoint.AFTER_SLOT, Failpoint.BEFORE_TELLING),
}


@pytest.mark.thorough("quarantine.before_commit", "take_over.after_generation", "take_over.after_read")
@pytest.mark.parametrize("point", [point for point in Failpoint if point not in ELSEWHERE], ids=str)
def test_nothing_is_lost_or_delivered_twice(point: Failpoint, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(400, bad=8, filtered=40)
    turn = "@2" if point in SECOND_BATCH else ""
    with _jvm(point, spark) as jvm:
        killed = stream.start(failpoint=f"{point}=kill{turn}", jvm=jvm)
        assert killed.wait(120) == -signal.SIGKILL, stream.log()
    stream.send(200, bad=2)
    stream.run(spark)
    assert stream.problems() == []


def _jvm(point: Failpoint, spark: SparkSession) -> AbstractContextManager[dict[str, str] | None]:
    """The JVM dies with its Python where the batch's files are there and nothing tells of them yet."""
    return nullcontext() if point is Failpoint.BEFORE_COMMIT else lent(spark)
