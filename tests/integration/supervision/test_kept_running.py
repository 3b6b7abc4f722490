"""Airflow keeps a stream running, whatever dies: a driver, a part of Airflow, the database, the broker. Each time the stream is
driven again within two minutes of the parts' return, by one driver, and the books are true."""

import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from include.contract.exit_class import ExitClass
from include.contract.identity import DRIVER_LOGS, generation_log
from include.control.stream_states import read_heartbeat
from include.local_stack.part import Part
from include.local_stack.stack import Stack
from tests.airflow_api import AirflowApi, Run
from tests.running import PROJECT, stack_command, wait_for
from tests.supervised import SupervisedStream

RUNNING_AGAIN_SECONDS = 120


@pytest.fixture(scope="module")
def kept(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStream]:
    """A new stream file, which starts as it declares: nobody asked Airflow for it."""
    stream = SupervisedStream(stack, tmp_path_factory.mktemp("kept"), config=stack.home.config)
    stream.wait_until_driven()
    yield stream
    stream.remove()


def test_a_new_stream_file_is_started_as_it_declares(kept: SupervisedStream, stack: Stack) -> None:
    assert [entry.event for entry in kept.journal()][:2] == ["declared", "launched"]
    assert kept.journal()[0].detail == {"desired": "running"}
    log = stack.home.folder.joinpath(*DRIVER_LOGS) / generation_log(kept.name, 1)
    assert f"{kept.name} generation 1 begins at" in log.read_text()
    told = stack_command(stack.home, "module", "include.supervision", "journal", kept.name).stdout
    assert "declared by stream file  (desired: running)" in told


def test_a_plan_can_be_asked_for_while_a_stream_runs(kept: SupervisedStream, stack: Stack) -> None:
    asked = stack_command(stack.home, "module", "include.supervision", "plan", kept.name)
    assert asked.returncode == 0, asked.stderr
    assert f"**SAFE**: {kept.name} would begin with" in asked.stdout


def test_each_run_of_supervision_ends_with_a_table_and_a_verdict(kept: SupervisedStream, airflow: AirflowApi) -> None:
    wait_for("a run that saw it to its end", lambda: kept.name in _last_log(airflow), 130)
    table, _, rest = _last_log(airflow).rpartition("STREAM ")[2].partition("\n\n")
    head, *lines = table.splitlines()
    assert head.split()[:4] == ["STATE", "SINCE", "GENERATION", "LAG"]
    assert [line for line in lines if line.startswith(f"{kept.name} ")]
    verdict = rest.strip().splitlines()[0]
    assert verdict == "every stream is as it should be" or kept.name not in verdict


@pytest.mark.thorough("jvm", "python")
@pytest.mark.parametrize("who", ["jvm", "python", "both"])
def test_a_driver_that_is_killed_is_followed_by_another(who: str, kept: SupervisedStream, stack: Stack) -> None:
    kept.want(running=True)  # as a person would: earlier ends are forgiven, and no pause comes before the restart
    before = kept.wait_until_driven()
    kept.send(100, bad=2)
    before.kill(who)
    kept.wait_until_delivered()
    after = kept.wait_until_driven()
    assert after.launch != before.launch
    assert not before.is_alive()
    (end,) = [end for end in kept.ends() if end.launch == before.launch]
    assert end.exit_class is ExitClass.KILLED, end.happened
    (scratch,) = stack.home.folder.glob(f"scratch/*/{kept.name}/*")
    assert scratch.name == after.launch, "what the killed one left is gone"
    assert list(scratch.glob("blockmgr-*")), "Spark writes there"


def watch_task(stack: Stack) -> psutil.Process:
    """The process in which the code of the `watch` task runs: the child of a worker of the executor."""
    workers = {worker.pid for worker in executor_workers(stack)}
    return next(one for one in stack_processes(stack, "scheduler") if one.ppid() in workers)


def executor_workers(stack: Stack) -> list[psutil.Process]:
    return [one for one in stack_processes(stack, "scheduler") if "LocalExecutor" in " ".join(one.cmdline())]


def busy_worker(stack: Stack) -> psutil.Process:
    return psutil.Process(watch_task(stack).ppid())


def stack_processes(stack: Stack, part: str) -> list[psutil.Process]:
    return part_named(stack, part).living_processes()


def part_named(stack: Stack, name: str) -> Part:
    return next(part for part in stack.parts if part.name == name)


def part_process(name: str) -> Callable[[Stack], psutil.Process]:
    return lambda stack: psutil.Process(part_named(stack, name).process.pid)  # type: ignore[union-attr]


def kill(process: psutil.Process) -> None:
    process.kill()
    process.wait(10)


VICTIMS: dict[str, Callable[[Stack], psutil.Process]] = {
    "task runner": watch_task,
    "executor's worker": busy_worker,
    **{name: part_process(name) for name in ("api-server", "dag-processor", "kafka", "postgres")},
}


@pytest.mark.thorough("api-server", "postgres", "dag-processor", "kafka")
@pytest.mark.parametrize("victim", VICTIMS)
def test_streams_outlive_a_part_that_is_killed(victim: str, kept: SupervisedStream, stack: Stack) -> None:
    driver = kept.wait_until_driven()
    wait_for("supervision at work", lambda: _is_watching(stack), 90)
    kill(VICTIMS[victim](stack))
    kept_alive = driver.is_alive()
    stack.up()
    assert kept_alive, "the driver went with it"
    within = time.monotonic() + RUNNING_AGAIN_SECONDS
    looked_at = _last_look(kept)
    kept.send(50)
    kept.wait_until_delivered(RUNNING_AGAIN_SECONDS)
    wait_for("supervision to look again", lambda: _last_look(kept) > looked_at, within - time.monotonic())
    kept.wait_until_driven(within - time.monotonic())
    if victim not in ("kafka",):
        assert kept.driver() == driver, "there was no reason for another driver"


def test_a_driver_outlives_the_scheduler_and_is_brought_back_if_it_dies_meanwhile(kept: SupervisedStream, stack: Stack) -> None:
    before = kept.wait_until_driven()
    kill(part_process("scheduler")(stack))
    kept.send(50)
    kept.wait_until_delivered()
    assert kept.driver() == before
    before.kill("both")
    kept.send(50)
    stack.up()
    kept.wait_until_delivered(RUNNING_AGAIN_SECONDS)
    assert kept.wait_until_driven().launch != before.launch


@pytest.mark.thorough("clear")
@pytest.mark.parametrize("deed", ["clear", "failed", "success"])
def test_meddling_with_the_supervising_task_harms_nothing(deed: str, kept: SupervisedStream, airflow: AirflowApi) -> None:
    driver = kept.wait_until_driven()
    wait_for("supervision at work", lambda: _running_run(airflow) is not None, 90)
    run = _running_run(airflow)
    assert run is not None
    if deed == "clear":
        run.clear("watch")
    else:
        run.set_state("watch", deed)
        airflow.trigger("supervise_streams")  # instead of waiting for the next minute
    kept.send(30)
    kept.wait_until_delivered()
    wait_for("another run to look", lambda: _looking_run(kept) != run.id, RUNNING_AGAIN_SECONDS)
    assert kept.wait_until_driven() == driver


@pytest.mark.thorough
def test_supervision_that_is_paused_leaves_drivers_alone_and_takes_up_again(kept: SupervisedStream, airflow: AirflowApi) -> None:
    driver = kept.wait_until_driven()
    airflow.pause("supervise_streams", True)
    try:
        if run := _running_run(airflow):
            run.set_state("watch", "success")
        wait_for("the last run to end", lambda: not _is_watching(airflow.stack), 90)
        kept.send(30)
        kept.wait_until_delivered()
        driver.kill("both")
    finally:
        airflow.pause("supervise_streams", False)
    airflow.trigger("supervise_streams")
    kept.send(30)
    kept.wait_until_delivered()
    assert kept.wait_until_driven(RUNNING_AGAIN_SECONDS).launch != driver.launch


@pytest.mark.thorough
def test_a_broken_dag_file_does_not_stop_supervision(kept: SupervisedStream, stack: Stack) -> None:
    broken = PROJECT / "dags" / "broken_by_a_test.py"
    broken.write_text("import no_such_module  # airflow dag\n")
    try:
        wait_for("the import error to be seen", lambda: not _dag_processor_is_healthy(stack), 90)
        looked_at = _last_look(kept)
        wait_for("supervision to look again", lambda: _last_look(kept) > looked_at, RUNNING_AGAIN_SECONDS)
    finally:
        broken.unlink()
    wait_for("the import error to be gone", lambda: _dag_processor_is_healthy(stack), 90)


def _last_look(stream: SupervisedStream) -> float:
    state = stream.state()
    return state.observed_at.timestamp() if state else 0.0


def _last_log(airflow: AirflowApi) -> str:
    """Of the newest run of supervision that ended by itself."""
    ended = next((run for run in airflow.runs("supervise_streams") if run.state == "success"), None)
    return ended.log("watch") if ended else ""


def _looking_run(stream: SupervisedStream) -> str:
    with stream.control.transaction() as cursor:
        heartbeat = read_heartbeat(cursor)
    return heartbeat.run if heartbeat else ""


def _running_run(airflow: AirflowApi) -> Run | None:
    return next((run for run in airflow.runs("supervise_streams") if run.state == "running"), None)


def _is_watching(stack: Stack) -> bool:
    try:
        return watch_task(stack).is_running()
    except (StopIteration, psutil.NoSuchProcess):
        return False


def _dag_processor_is_healthy(stack: Stack) -> bool:
    return next(part for part in stack.status() if part.name == "dag-processor").is_healthy
