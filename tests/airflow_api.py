"""The stack's Airflow as a person with a browser or a script sees it: through its REST API."""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from include.local_stack.airflow import WITHOUT_PROXY
from include.local_stack.airflow_settings import airflow_url
from include.local_stack.stack import Stack
from tests.running import wait_for

ENDED = ("success", "failed")


class Refused(Exception):
    def __init__(self, status: int, answer: str) -> None:
        super().__init__(f"{status}: {answer}")
        self.status = status
        self.answer = answer


@dataclass
class AirflowApi:
    stack: Stack
    user: str = "admin"
    password: str = ""
    _token: str = field(default="", repr=False)

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        if not self._token:
            password = self.password or self.stack.home.secret("airflow_password")
            self._token = self._send("/auth/token", {"username": self.user, "password": password}, "POST")["access_token"]
        return self._send(path, body, method or ("GET" if body is None else "POST"))

    def _send(self, path: str, body: dict[str, Any] | None, method: str) -> Any:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(airflow_url(self.stack.ports.chosen) + path, data, headers, method=method)
        try:
            with WITHOUT_PROXY.open(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from None

    def page(self, path: str, *, logged_in: bool = True) -> str:
        """What a browser gets; raises Refused if it gets none."""
        if logged_in:
            self.ask("/api/v2/monitor/health")
        headers = {"Authorization": f"Bearer {self._token}"} if logged_in else {}
        request = urllib.request.Request(airflow_url(self.stack.ports.chosen) + path, headers=headers)
        try:
            with WITHOUT_PROXY.open(request, timeout=30) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from None

    def trigger(self, dag: str, **conf: Any) -> "Run":
        started = self.ask(f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        return Run(self, dag, started["dag_run_id"])

    def runs(self, dag: str, newest: int = 5) -> list["Run"]:
        """Newest first."""
        found = self.ask(f"/api/v2/dags/{dag}/dagRuns?limit={newest}&order_by=-run_after")["dag_runs"]
        return [Run(self, dag, run["dag_run_id"]) for run in found]

    def pause(self, dag: str, paused: bool) -> None:
        self.ask(f"/api/v2/dags/{dag}", {"is_paused": paused}, "PATCH")


@dataclass
class Run:
    api: AirflowApi
    dag: str
    id: str

    @property
    def path(self) -> str:
        return f"/api/v2/dags/{self.dag}/dagRuns/{quote(self.id)}"

    @property
    def state(self) -> str:
        return str(self.api.ask(self.path)["state"])

    def tasks(self) -> dict[str, str | None]:
        return {each["task_id"]: each["state"] for each in self.api.ask(f"{self.path}/taskInstances")["task_instances"]}

    def links(self, task: str) -> dict[str, str]:
        return dict(self.api.ask(f"{self.path}/taskInstances/{task}/links")["extra_links"])

    def wait(self, seconds: float = 240) -> str:
        """Until it has ended; its state."""
        deadline = time.monotonic() + seconds
        while (state := self.state) not in ENDED:
            assert time.monotonic() < deadline, f"{self.dag} {self.id} is {state} after {seconds:.0f} s: {self.tasks()}"
            time.sleep(0.5)
        return state

    def wait_for_task(self, task: str, *states: str, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while self.tasks().get(task) not in states:
            assert time.monotonic() < deadline, f"{task} of {self.dag} is not {states} after {seconds:.0f} s: {self.tasks()}"
            time.sleep(0.3)

    def log(self, task: str, attempt: int = 1) -> str:
        answer = self.api.ask(f"{self.path}/taskInstances/{task}/logs/{attempt}")
        return "\n".join(str(line.get("event", "")) + str(line.get("error_detail", "")) for line in answer["content"])

    def wait_until_asked(self) -> None:
        """Until a person can be asked, and Airflow's scheduler has heard that the task waits: one that is answered, expires or is
        marked before that round of the scheduler is failed by Airflow 3.3.2; then nothing is touched."""
        self.wait_for_task("approve", "awaiting_input", "deferred")
        heard = f"TaskInstance Finished: dag_id={self.dag}, task_id=approve, run_id={self.id},"
        log = self.api.stack.home.log("scheduler")
        wait_for(f"the scheduler to hear that {self.dag} asks", lambda: heard in log.read_text(errors="replace"), 120)

    def answer(self, option: str) -> None:
        path = f"{self.path}/taskInstances/approve/-1/hitlDetails"
        self.api.ask(path, {"chosen_options": [option], "params_input": {}}, "PATCH")

    def set_state(self, task: str, state: str) -> None:
        self.api.ask(f"{self.path}/taskInstances/{task}", {"new_state": state, "note": "a test"}, "PATCH")

    def clear(self, task: str) -> None:
        body = {"dag_run_id": self.id, "task_ids": [task], "dry_run": False, "only_failed": False, "include_downstream": True}
        self.api.ask(f"/api/v2/dags/{self.dag}/clearTaskInstances", body)
