"""Airflow's four components, each a process of its own: one that dies is seen and started again alone.

Health is asked of the API server, as a user would: a login, the components' heartbeats, a parsed DAG.
"""

import hashlib
import http.client
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from include.contract.errors import TidemarkError
from include.local_stack.airflow_settings import PASSWORD, USER, airflow_url
from include.local_stack.home import PROJECT, StackHome
from include.local_stack.part import NotHealthy, Part
from include.local_stack.ports import LOOPBACK
from include.processes.die_with_parent import bound_to_this_process

WITHOUT_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the password goes to loopback, nowhere else
AIRFLOW = [str(Path(sys.executable).parent / "airflow")]


class AirflowNotMade(TidemarkError):
    """Airflow's database or first user could not be made."""


class RunFailed(TidemarkError):
    """A DAG run that was waited for did not succeed."""


class AirflowPart(Part):
    arguments: ClassVar[list[str]]

    def __init__(self, home: StackHome, ports: dict[str, int], make_environment: Callable[[], dict[str, str]]) -> None:
        super().__init__(home, ports)
        self._make_environment = make_environment  # only a start needs it: status and down work without Java

    def environment(self) -> dict[str, str]:
        return self._make_environment()

    @property
    def folder(self) -> Path:
        return self.home.data("airflow")

    def command(self) -> list[str]:
        return [sys.executable, *AIRFLOW, *self.arguments]

    def ask(self, path: str, token: str | None = None, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(airflow_url(self.ports) + path, data=data, headers=headers, method=method)
        try:
            with WITHOUT_PROXY.open(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise NotHealthy(f"{path} answered {error.code} {error.read(300).decode(errors='replace')}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise NotHealthy(f"{path} on port {self.ports['airflow']}: {error}") from error

    def log_in(self) -> str:
        """A token for the REST API, got with the generated password."""
        credentials = {"username": USER, "password": self.home.secret(PASSWORD)}
        return str(self.ask("/auth/token", body=credentials)["access_token"])

    def heartbeat_since_start(self, component: str) -> str:
        """A heartbeat of an earlier life looks healthy for half a minute: only one of this process counts."""
        beat = self.ask("/api/v2/monitor/health").get(component) or {}
        latest = beat.get(f"latest_{component}_heartbeat")
        process = self.process
        if latest is None or process is None or not process.is_alive():
            raise NotHealthy(f"no heartbeat of the {component} yet")
        if datetime.fromisoformat(latest).timestamp() < process.started_at or beat["status"] != "healthy":
            raise NotHealthy(f"the last heartbeat of the {component} was at {latest}")
        return f"heartbeat {(datetime.now(UTC) - datetime.fromisoformat(latest)).total_seconds():.0f} s ago"


class ApiServer(AirflowPart):
    name = "api-server"
    port_names = ("airflow",)

    @property
    def arguments(self) -> list[str]:  # type: ignore[override]
        return ["api-server", "--host", LOOPBACK, "--port", str(self.port)]

    def check_health(self) -> str:
        if self.ask("/api/v2/monitor/health")["metadatabase"]["status"] != "healthy":
            raise NotHealthy("Airflow cannot reach its database")
        self.log_in()
        return f"{USER} can log in"

    def run_dag(self, dag_id: str, run_id: str, conf: dict[str, Any], patience_seconds: float) -> None:
        """Triggers a run, as the UI does, and waits for its end; raises RunFailed."""
        token = self.log_in()
        runs = f"/api/v2/dags/{dag_id}/dagRuns"
        self.ask(runs, token, {"dag_run_id": run_id, "logical_date": None, "conf": conf})
        deadline = time.monotonic() + patience_seconds
        state = "queued"
        while state not in ("success", "failed") and time.monotonic() < deadline:
            time.sleep(1)
            with suppress(NotHealthy):  # a busy API server; the deadline decides
                state = self.ask(f"{runs}/{quote(run_id)}", token)["state"]
        if state != "success":
            raise RunFailed(
                f"Run {run_id} of {dag_id} is {state} after {patience_seconds + time.monotonic() - deadline:.0f} s.",
                state="The stack is as it was.",
                next_step=f"Read the task's log at {airflow_url(self.ports)}/dags/{dag_id}/runs/{quote(run_id)}.",
            )


class Scheduler(AirflowPart):
    name = "scheduler"
    arguments: ClassVar[list[str]] = ["scheduler", "--skip-serve-logs"]  # its log server would listen on every address
    stop_patience_seconds = 2  # it waits for its tasks; the one that supervises always runs, and may be killed at any moment

    def check_health(self) -> str:
        return self.heartbeat_since_start("scheduler")


class DagProcessor(AirflowPart):
    name = "dag-processor"
    arguments: ClassVar[list[str]] = ["dag-processor"]

    def check_health(self) -> str:
        seen = self.check_started()
        if errors := self.ask("/api/v2/importErrors", self.log_in())["import_errors"]:
            first = errors[0]
            raise NotHealthy(f"{first['filename']} cannot be imported: {first['stack_trace'].strip().splitlines()[-1]}")
        return f"{seen}, no import error"

    def check_started(self) -> str:
        """One broken DAG file must not keep the UI from starting, where a person looks for it."""
        self.heartbeat_since_start("dag_processor")
        parsed = int(self.ask("/api/v2/dags?limit=1", self.log_in())["total_entries"])
        if not parsed:
            raise NotHealthy("no DAG has been parsed yet")
        return f"{parsed} DAG{'s' if parsed > 1 else ''} parsed"


class Triggerer(AirflowPart):
    name = "triggerer"
    arguments: ClassVar[list[str]] = ["triggerer", "--skip-serve-logs"]
    stop_patience_seconds = 1  # it takes ten; what it waited for, the next one waits for

    def check_health(self) -> str:
        return self.heartbeat_since_start("triggerer")


COMPONENTS: list[type[AirflowPart]] = [ApiServer, Scheduler, DagProcessor, Triggerer]


def make_airflow(home: StackHome, environment: dict[str, str]) -> None:
    """Airflow's tables and first user: again after each change of the lock. The stamp lies beside the database that it
    speaks of, and is written last, so that a killed attempt is repeated."""
    locked = hashlib.sha256((PROJECT / "requirements.txt").read_bytes()).hexdigest()[:16]
    stamp = home.data("postgres") / f"airflow-made-{locked}"
    if stamp.exists():
        return
    home.data("airflow").mkdir(parents=True, exist_ok=True)
    run_airflow(["db", "migrate"], home, environment)
    named = ["--username", USER, "--firstname", "Tidemark", "--lastname", "Admin", "--email", "admin@localhost.localdomain"]
    password = home.secret(PASSWORD)  # through standard input: on a command line every user of the machine could read it
    run_airflow(["users", "create", "--role", "Admin", *named], home, environment, answer=f"{password}\n{password}\n")
    stamp.touch()


def run_airflow(arguments: list[str], home: StackHome, environment: dict[str, str], answer: str | None = None) -> None:
    log = home.log("airflow-setup")
    with log.open("ab") as output:
        done = subprocess.run(
            bound_to_this_process([sys.executable, *AIRFLOW, *arguments]),
            env=environment,
            cwd=home.data("airflow"),
            input=answer.encode() if answer else None,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # without a terminal the password is read from standard input
            check=False,
        )
    if done.returncode:
        last_lines = "\n    ".join(log.read_text(errors="replace").splitlines()[-8:])
        raise AirflowNotMade(
            f"`airflow {' '.join(arguments[:2])}` ended with code {done.returncode}:\n    {last_lines}\n",
            state="Parts that this command started are stopped again.",
            next_step=f"Read {log}, mend the cause, then run `make up` again.",
        )
