"""Drivers into a topic that sleep with open transactions while another takes over: P1 and P5."""

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from tests.outputs import OutputStream
from tests.running import wait_for

TIMES = 20 if "TIDEMARK_MATRIX" in os.environ else 1
LONGEST_SECONDS = 1.5  # into a batch: about as long as one takes


@pytest.mark.parametrize("number", range(TIMES))
def test_a_driver_that_sleeps_somewhere_in_a_batch_is_fenced(
    number: int, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    """All its processes are stopped at a random moment; a successor with another number of slots delivers; then it wakes."""
    chance = random.Random(number)  # noqa: S311 - repeatable on purpose
    stream = OutputStream(stack, tmp_path, partitions=4, more={"slots": chance.choice([1, 2, 3])})
    stream.send(1_500)
    sleeper = stream.start()
    wait_for("its first batch", lambda: "batch     0" in stream.log(), 120)
    time.sleep(chance.uniform(0, LONGEST_SECONDS))
    mine = [psutil.Process(sleeper.pid), *psutil.Process(sleeper.pid).children(recursive=True)]
    for process in mine:
        process.suspend()
    stream.more = {"slots": chance.choice([1, 2, 4])}
    stream.write_file()
    stream.send(200)
    stream.run(spark)
    before = len(stream.outputs())
    stream.send(100)
    for process in mine:
        with suppress(psutil.NoSuchProcess):
            process.resume()
    assert sleeper.wait(90) == ExitClass.FENCED.code, stream.log()
    assert len(stream.outputs()) == before
    stream.run(spark)
    assert stream.problems_of_outputs() == []
    assert stream.booked()["read"] == len(stream.sent)
