"""What the tasks of `supervise_streams` do. Imported when a task runs, never when a DAG file is parsed."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

from include.airflow_parts.airflow_connections import make_known
from include.airflow_parts.driver_command import driver_command
from include.contract.catalog import read_catalog
from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.identity import DRIVER_LOGS
from include.control.database import ControlDatabase
from include.supervision.ground import Ground
from include.supervision.launcher import DetachedLauncher
from include.supervision.supervise import Pass, Supervisor
from include.supervision.table import render

LOOK_EVERY_SECONDS = 2
LAST_LOOK_SECOND = 59.3  # of the minute: the run is over when the next one is due, whose first look comes 2.4 s after this


def watch(run: str) -> str:
    """Looks after all streams for the rest of this minute; returns the verdict of the last look."""
    supervisor = make_supervisor()
    done: Pass | None = None
    failure: Exception | None = None
    told: dict[str, str] = {}
    for _ in _looks():
        try:
            done = supervisor.supervise(run)
            told = _tell_changes(done, told)
        except Exception as error:  # noqa: BLE001 - the next look may find it mended; told each time
            failure = error
            print(f"unknown: {error}", flush=True)
    if done is None:
        raise failure or RuntimeError("nobody looked")
    print(render(done.states, datetime.now(UTC)), flush=True)
    print(f"\n{done.verdict}", flush=True)
    return done.verdict


def _looks() -> Iterator[None]:
    """Now, every two seconds, and a last time at the end of this minute."""
    last = time.time() // 60 * 60 + LAST_LOOK_SECOND
    next_look = time.time()
    while next_look < last:
        time.sleep(max(0.0, next_look - time.time()))
        yield
        next_look = max(next_look + LOOK_EVERY_SECONDS, time.time())
    time.sleep(max(0.0, last - time.time()))
    yield


def _tell_changes(done: Pass, told: dict[str, str]) -> dict[str, str]:
    """A line for each stream whose state is news; the whole table comes at the end."""
    for state in done.states:
        if told.get(state.stream) != state.state:
            print(f"{state.observed_at:%H:%M:%S}  {state.stream}: {state.state}. {state.detail}", flush=True)
    return {state.stream: state.state for state in done.states}


def make_supervisor() -> Supervisor:
    ground = make_ground()
    return Supervisor(ground.control, ground.observer, ground.launcher)


def make_ground() -> Ground:
    environment = load_environment()
    streams = read_catalog().streams.values()
    make_known({environment.control.connection, *(each for stream in streams for each in stream.spec.connections)})
    control = ControlDatabase(read_connection(environment.control.connection))
    folder, logs = environment.home_path("drivers"), environment.home_path(*DRIVER_LOGS)
    launcher = DetachedLauncher(partial(driver_command, environment), folder, logs, environment.scratch_path())
    return Ground(environment, control, launcher)
