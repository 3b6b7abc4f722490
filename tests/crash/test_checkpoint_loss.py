"""A checkpoint is a cache: it may be deleted at any time, and every record is still delivered once (P2)."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint, FailpointReached
from tests.streams import TrialStream, at, crash, exit_class_of


def test_a_checkpoint_that_is_deleted_costs_nothing(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """After a crash between the sink's commit and Spark's log, which only the checkpoint could tell of."""
    stream = TrialStream(stack, tmp_path)
    stream.send(500, bad=3)
    with pytest.raises(FailpointReached), at(Failpoint.AFTER_COMMIT, crash):
        stream.run(spark)
    shutil.rmtree(stream.checkpoints)
    stream.send(50)
    stream.run(spark)
    shutil.rmtree(stream.checkpoints)
    stream.run(spark)
    assert stream.problems() == []


def test_a_checkpoint_deleted_under_a_running_stream_ends_it_and_the_next_start_goes_on(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(60)
    with stream.running(spark) as running:
        stream.wait_until_delivered()
        shutil.rmtree(stream.checkpoints)
        stream.send(60)
        failure = running.wait_until_it_fails()
    assert exit_class_of(failure) is ExitClass.CHECKPOINT_DAMAGE
    stream.run(spark)
    assert stream.problems() == []
