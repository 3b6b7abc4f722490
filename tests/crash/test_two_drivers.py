"""Two drivers of one stream: whatever their order, the newer generation writes, and the older changes nothing (P1)."""

import signal
import threading
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from jobs.sink import Fenced, SchemaDiffers
from tests.running import wait_for
from tests.streams import TrialStream, at, once
from tests.warm_jvm import lent


@pytest.mark.thorough("sink.before_commit")
@pytest.mark.parametrize("point", [Failpoint.IN_WRITE, Failpoint.BEFORE_COMMIT], ids=str)
def test_a_driver_that_slept_inside_its_write_ends_as_fenced_and_changes_nothing(
    point: Failpoint, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(600, bad=3)
    with lent(spark) as jvm:
        sleeper = stream.start(failpoint=f"{point}=stop@2", jvm=jvm)
        wait_for("the first driver to stop inside its write", lambda: _is_stopped(sleeper.pid), 120)
        stream.run(spark)
        versions = len(stream.notes())
        sleeper.send_signal(signal.SIGCONT)
        assert sleeper.wait(60) == ExitClass.FENCED.code, stream.log()
    assert "generation 2 writes it, this is 1" in stream.log()
    assert len(stream.notes()) == versions
    assert stream.problems() == []


def _is_stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def both_start_at_once(stream: TrialStream, spark: SparkSession) -> list[str]:
    """How each of two drivers ended that have both taken a generation before either fences."""
    both, outcomes = threading.Barrier(2), []

    def drive() -> None:
        try:
            stream.run(spark)
            outcomes.append("delivered")
        except Fenced:
            outcomes.append("fenced")

    threads = [threading.Thread(target=drive) for _ in range(2)]
    with stream.environment(), at(Failpoint.AFTER_GENERATION, lambda: both.wait(60)):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    return outcomes


def test_of_two_starts_at_once_one_wins(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(400)
    outcomes = both_start_at_once(stream, spark)
    generations = [note["generation"] for note in stream.notes()]
    assert generations == sorted(generations)  # after the fence of the higher number the lower one commits nothing
    assert max(generations) == 2
    assert len(outcomes) == 2
    assert "delivered" in outcomes
    assert stream.problems() == []


def test_a_start_that_is_refused_leaves_the_running_driver_alone(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(30)
    with stream.running(spark):
        stream.wait_until_delivered()
        stream.write_file(select={"day": "date(ts)", "amount_cents": "cast(amount * 100 as int)"})
        with pytest.raises(SchemaDiffers):
            stream.run(spark)
        stream.send(30, bad=2)
        stream.wait_until_delivered()


@pytest.mark.parametrize("left", [0, 1], ids=["lost", "restored to an older state"])
def test_no_generation_is_used_twice_when_the_control_database_forgets(
    left: int, stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    for _ in range(3):
        stream.send(50)
        stream.run(spark)
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        cursor.execute("DELETE FROM generation WHERE stream = %s AND number > %s", [stream.name, left])
        cursor.execute("DELETE FROM ledger WHERE stream = %s AND generation > %s", [stream.name, left])
        cursor.execute("DELETE FROM ledger_copied WHERE stream = %s", [stream.name])
    stream.send(50)
    stream.run(spark)
    fences = [note["generation"] for note in stream.notes() if note["kind"] == "fence"]
    assert fences == [1, 2, 3, 4]
    assert stream.problems() == []
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        cursor.execute("SELECT sum(delivered) FROM ledger WHERE stream = %s", [stream.name])
        assert cursor.fetchone() == (200,)  # filled again from the table


def test_a_number_that_another_deployment_took_is_not_used(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Two control databases, one table: both begin with generation 1."""
    stream = TrialStream(stack, tmp_path)
    stream.send(50)

    def other_deployment_starts() -> None:
        """Between our generation and our fence, and takes the same number."""
        with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
            cursor.execute("DELETE FROM generation WHERE stream = %s", [stream.name])
        stream.run(spark)

    with at(Failpoint.AFTER_GENERATION, once(other_deployment_starts)):
        stream.run(spark)
    assert [note["generation"] for note in stream.notes() if note["kind"] == "fence"] == [1, 2]
    assert stream.problems() == []
