"""The whole stack: starts its parts in order, stops them in the reverse order, describes them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from include.contract.environment import Environment, LocalStack, load_environment
from include.contract.errors import TidemarkError
from include.local_stack import airflow_settings, postgres
from include.local_stack.airflow import COMPONENTS, AirflowPart, ApiServer, make_airflow
from include.local_stack.disk import check_free_space
from include.local_stack.drivers import running_drivers, stop_drivers
from include.local_stack.home import StackHome
from include.local_stack.java import find_java
from include.local_stack.job_environment import job_environment
from include.local_stack.kafka import Kafka
from include.local_stack.part import Part
from include.local_stack.ports import Ports
from include.local_stack.postgres import WAREHOUSE, Postgres
from include.local_stack.progress import say, step
from include.local_stack.status import PartStatus, describe
from include.processes.interruptions import held_back
from include.processes.sessions import kill_all

SECRETS = [postgres.PASSWORD, airflow_settings.PASSWORD, *airflow_settings.SECRETS]
STACK_BYTES = 2 * 10**9  # an idle stack takes 0.2 GB; the rest is room for a day of development


class NoLocalStack(TidemarkError):
    """The environment does not describe an embedded stack."""


class Stack:
    def __init__(self, home: StackHome, with_airflow: bool = True) -> None:
        self.home = home
        self.environment: Environment = load_environment("local")
        self.with_airflow = with_airflow
        self.ports = Ports(home.ports_file)

    @property
    def settings(self) -> LocalStack:
        if self.environment.local_stack is None:
            raise NoLocalStack(
                "config/environments/local.yaml has no local_stack section.",
                state="Nothing was started.",
                next_step="Restore it from version control.",
            )
        return self.environment.local_stack

    @property
    def postgres(self) -> Postgres:
        return Postgres(self.home, self.ports.chosen)

    @property
    def kafka(self) -> Kafka:
        return Kafka(self.home, self.ports.chosen, self.settings)

    @property
    def airflow(self) -> list[AirflowPart]:
        return [component(self.home, self.ports.chosen, self.airflow_environment) for component in COMPONENTS]

    @property
    def api_server(self) -> ApiServer:
        return ApiServer(self.home, self.ports.chosen, self.airflow_environment)

    def job_environment(self) -> dict[str, str]:
        control, warehouse = self.postgres.connection("tidemark"), self.postgres.connection(WAREHOUSE)
        return job_environment(self.home, self.environment, self.settings, self.kafka.connection, control, warehouse)

    def airflow_environment(self) -> dict[str, str]:
        database = self.postgres.connection("airflow")
        return airflow_settings.airflow_environment(
            self.home, self.ports.chosen, self.environment, self.settings, database, self.job_environment()
        )

    @property
    def parts(self) -> list[Part]:
        """In the order of starting."""
        return [self.postgres, self.kafka, *(self.airflow if self.with_airflow else [])]

    def up(self, asked_ports: dict[str, int] | None = None) -> bool:
        """Starts what does not run; False if everything ran already. Stops what it started if it fails or is interrupted."""
        with self.home.only_one_at_a_time(), self.ports.held():
            self._make_home()
            if all(part.is_alive for part in self.parts):
                self._wait_for(self.parts)
                return False
            for part in self.parts:
                if not part.is_alive:
                    kill_all(part.living_processes)  # its children may still hold its port or its data
            self._stop_airflow_if_its_ground_changes(self._choose_ports(asked_ports or {}))
            started: list[Part] = []
            with _undone_on_failure(started):
                self._start([self.postgres, self.kafka], started)
                self._wait_for([self.postgres])
                self.postgres.make_databases()
                if self.with_airflow:  # while the broker starts
                    with step("Airflow's tables and first user"):
                        make_airflow(self.home, self.airflow_environment())
                self._wait_for([self.kafka])
                if self.with_airflow:
                    self._start(list(self.airflow), started)
                    self._wait_for(list(self.airflow))
            return True

    def down(self) -> list[str]:
        """Returns the names of the parts that were stopped."""
        if not self.home.ports_file.exists():
            return []
        with self.home.only_one_at_a_time():
            running = [part for part in reversed(self.parts) if part.process or part.living_processes()]
            above: list[Part] = [part for part in running if isinstance(part, AirflowPart)]
            below = [part for part in running if part not in above]
            _stop_all(above)  # first: supervision would start the drivers again
            drivers = self._stop_drivers()
            _stop_all(below)
            return [*(part.name for part in above), *drivers, *(part.name for part in below)]

    def _stop_drivers(self) -> list[str]:
        if not (drivers := running_drivers(self.home)):
            return []
        with step(f"stopping {len(drivers)} driver{'s' if len(drivers) > 1 else ''}"):
            stop_drivers(self.home)
        return [f"{len(drivers)} driver{'s' if len(drivers) > 1 else ''}"]

    def status(self) -> list[PartStatus]:
        if not self.home.ports_file.exists():
            return []
        return [describe(part) for part in self.parts]

    def _make_home(self) -> None:
        find_java()
        self.home.make(SECRETS)
        check_free_space(self.home.folder, STACK_BYTES, "the stack's data")

    def _choose_ports(self, asked_ports: dict[str, int]) -> bool:
        """For the parts that do not run. True if one of them is no longer where it was."""
        first_ports = self.settings.first_ports.model_dump()
        names = [name for part in self.parts if not part.is_alive for name in part.port_names]
        moved = [self.ports.choose(name, first_ports[name], asked_ports.get(name)) for name in names]
        for news in filter(None, moved):
            say(f"  {news}")
        return any(moved)

    def _stop_airflow_if_its_ground_changes(self, ports_moved: bool) -> None:
        """Its components know the others by their old ports, and one that lost its database may hang instead of ending."""
        if self.with_airflow and (ports_moved or not self.postgres.is_alive):
            _stop_all([part for part in reversed(self.airflow) if part.process])

    def _start(self, parts: list[Part], started: list[Part]) -> None:
        """All at once."""
        for part in parts:
            if not part.is_alive:
                started.append(part)
                part.start()

    def _wait_for(self, parts: list[Part]) -> None:
        for part in parts:
            with step(f"{part.name} on port {part.port}" if part.port else part.name):
                part.wait_until_healthy()


@contextmanager
def _undone_on_failure(started: list[Part]) -> Iterator[None]:
    """Whatever ends the block early, an error or an interruption, stops the parts that were started in it."""
    try:
        yield
    except BaseException:
        with held_back():
            _stop_all([part for part in reversed(started) if part.process])
        raise


def _stop_all(parts: list[Part]) -> None:
    """All are asked at once. One that cannot be stopped does not keep the others running."""
    failures = []
    asked = {part.name: part.ask_to_stop() for part in parts}
    began = time.monotonic()
    for part in parts:
        try:
            with step(f"stopping {part.name}"):
                how = part.stop(asked=asked[part.name], waited_seconds=time.monotonic() - began)
            if how != "stopped":
                say(f"    {part.name} {how}")
        except TidemarkError as error:
            failures.append(error)
    if failures:
        raise failures[0]
