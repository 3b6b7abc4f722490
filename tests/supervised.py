"""Streams that the stack's own Airflow looks after, and what the control database and the machine say of them."""

import os
import signal
from contextlib import suppress
from dataclasses import dataclass

from include.contract.identity import LAUNCH_VARIABLE
from include.control.database import ControlDatabase
from include.control.desired import set_desired
from include.control.drivers import Ended, Launched, read_ends, read_open_launches
from include.control.incidents import Incident, close_incidents, read_open_incidents
from include.control.journal import Entry, read_journal
from include.control.stream_states import StreamState, read_states
from include.local_stack.drivers import python_of
from include.processes.by_environment import find_processes, find_values, session_leader
from tests.running import wait_for
from tests.streams import TrialStream


@dataclass
class SupervisedStream(TrialStream):
    """Its file lies in the stack's own config, where supervision finds it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.control.migrate()  # supervision may not have come by yet

    @property
    def control(self) -> ControlDatabase:
        return ControlDatabase(self.stack.postgres.connection("tidemark"))

    def wait_until_delivered(self, seconds: float = 180) -> None:
        """A driver may have to be started first."""
        super().wait_until_delivered(seconds)

    def state(self) -> StreamState | None:
        with self.control.transaction() as cursor:
            return read_states(cursor).get(self.name)

    def wait_for_state(self, *titles: str, seconds: float = 120) -> StreamState:
        wait_for(
            f"{self.name} to be {' or '.join(titles)}", lambda: (it := self.state()) is not None and it.state in titles, seconds
        )
        state = self.state()
        assert state is not None
        return state

    def launches(self) -> list[Launched]:
        with self.control.transaction() as cursor:
            return read_open_launches(cursor, self.name)

    def ends(self) -> list[Ended]:
        with self.control.transaction() as cursor:
            return read_ends(cursor, self.name)

    def incidents(self) -> list[Incident]:
        with self.control.transaction() as cursor:
            return [one for one in read_open_incidents(cursor) if one.stream == self.name]

    def journal(self) -> list[Entry]:
        with self.control.transaction() as cursor:
            return [entry for entry in read_journal(cursor, self.name, 100) if entry.stream == self.name]

    def living_launches(self) -> set[str]:
        """By the machine's own word, not the control database's."""
        ours = {str(launch.launch) for launch in self.launches()} | {end.launch for end in self.ends()}
        return find_values(LAUNCH_VARIABLE, TIDEMARK_HOME=str(self.stack.home.folder)) & ours

    def driver(self) -> "DriverProcesses":
        (launch,) = self.living_launches()
        return DriverProcesses.of(launch)

    def wait_until_driven(self, seconds: float = 120) -> "DriverProcesses":
        def is_driven() -> bool:
            state = self.state()
            return state is not None and state.state in ("idle", "running", "catching up") and len(self.living_launches()) == 1

        wait_for(f"{self.name} to have a driver that has taken over", is_driven, seconds)
        return self.driver()

    def want(self, *, running: bool) -> None:
        with self.control.transaction() as cursor:
            set_desired(cursor, self.name, running=running, set_by="a test", reason="the test needs it so")

    def remove(self) -> None:
        """Stops it, closes its incidents and takes its file away."""
        self.want(running=False)
        with self.control.transaction() as cursor:
            close_incidents(cursor, self.name, [one.title for one in read_open_incidents(cursor)], closed_by="a test")
        wait_for(f"the driver of {self.name} to end", lambda: not self.living_launches(), 180)
        (self.config / "streams" / f"{self.name}.yaml").unlink(missing_ok=True)


@dataclass(frozen=True)
class DriverProcesses:
    launch: str
    jvm: int
    python: int

    @classmethod
    def of(cls, launch: str) -> "DriverProcesses":
        pids = find_processes(**{LAUNCH_VARIABLE: launch})
        leader = session_leader(pids)
        assert leader is not None
        return cls(launch, leader.pid, python_of(pids)[0])

    def is_alive(self) -> bool:
        return bool(find_processes(**{LAUNCH_VARIABLE: self.launch}))

    def kill(self, who: str) -> None:
        """`jvm`, `python` or both, as the kernel would: without a word."""
        for pid in {"jvm": [self.jvm], "python": [self.python], "both": [self.jvm, self.python]}[who]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
