"""A driver is killed (SIGKILL) at each boundary; the next start delivers every record once, and the books are true."""

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from tests.streams import TrialStream

SECOND_BATCH = {Failpoint.IN_WRITE, Failpoint.BEFORE_COMMIT, Failpoint.AFTER_COMMIT}


@pytest.mark.parametrize("point", list(Failpoint), ids=str)
def test_nothing_is_lost_or_delivered_twice(point: Failpoint, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(700, bad=8, filtered=40)
    turn = "@2" if point in SECOND_BATCH else ""
    killed = stream.start(failpoint=f"{point}=kill{turn}")
    assert killed.wait(120) == -signal.SIGKILL, stream.log()
    stream.send(200, bad=2)
    stream.run(spark)
    assert stream.problems() == []
