"""Every DAG file parses fast, without heavy imports or a network, and says what its DAG is for."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from include.supervision.runbooks.registry import RUNBOOKS
from tests.running import PROJECT

DAG_FILES = sorted(file for file in (PROJECT / "dags").rglob("*.py") if file.stem != "__init__")
HEAVY = {"pyspark", "great_expectations", "deltalake", "pandas", "confluent_kafka"}
PARSE = """
import gc, importlib.util, json, socket, sys
import airflow.sdk, airflow.providers.standard.operators.empty  # what any DAG needs is not this file's doing
def refuse(*args, **kwargs): raise AssertionError("a DAG file opened a connection while it was parsed")
socket.socket.connect = refuse
spec = importlib.util.spec_from_file_location("parsed", sys.argv[1])
module = importlib.util.module_from_spec(spec)
import time; began = time.process_time()
spec.loader.exec_module(module)
seconds = time.process_time() - began
dags = [value for value in gc.get_objects() if type(value) is airflow.sdk.DAG]
def tell(dag):
    return {
        "id": dag.dag_id, "doc": dag.doc_md, "tags": sorted(dag.tags), "params": sorted(dag.params), "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "tasks": [{"id": each.task_id, "owner": each.owner, "retries": each.retries} for each in dag.topological_sort()],
    }
print(json.dumps({
    "seconds": seconds, "modules": sorted({name.split(".")[0] for name in sys.modules}), "dags": [tell(dag) for dag in dags],
}))
"""


@pytest.fixture(params=DAG_FILES, ids=lambda file: file.stem, scope="module")
def parsed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    home = tmp_path_factory.mktemp("airflow")
    done = subprocess.run(
        [sys.executable, "-c", PARSE, str(request.param)],
        cwd=PROJECT,
        env={**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_a_dag_file_imports_nothing_heavy(parsed: dict[str, list[str]]) -> None:
    assert HEAVY & set(parsed["modules"]) == set()


def test_every_dag_is_documented_and_tagged(parsed: dict[str, list[dict[str, str]]]) -> None:
    assert parsed["dags"], "the file holds no DAG"
    for dag in parsed["dags"]:
        assert dag["tags"]
        for heading in ("Use when", "Don't use when", "What it changes", "Steps", "If it fails half-way", "Undo"):
            assert f"**{heading}**" in dag["doc"]


def test_a_dag_file_is_parsed_within_two_seconds_of_work(parsed: dict[str, float]) -> None:
    assert parsed["seconds"] < 2


def test_every_task_has_an_owner_and_no_blind_retries(parsed: dict[str, list[dict[str, Any]]]) -> None:
    for dag in parsed["dags"]:
        assert {(task["owner"], task["retries"]) for task in dag["tasks"]} == {("tidemark", 0)}
        assert dag["catchup"] is False


def test_every_runbook_has_the_spine_and_asks_for_a_reason(parsed: dict[str, list[dict[str, Any]]]) -> None:
    for dag in parsed["dags"]:
        if "runbook" in dag["tags"]:
            assert [task["id"] for task in dag["tasks"]] == ["check", "plan", "approve", "act", "verify", "report"]
            assert "reason" in dag["params"]


def test_the_census_of_dags() -> None:
    """A DAG that appears or disappears is meant to."""
    scheduled = {"housekeeping", "maintain_checkpoints", "maintain_tables", "reconcile_streams", "supervise_streams"}
    expected = {"announce_complete", "check_deployment", *scheduled, *RUNBOOKS}
    assert {file.stem for file in DAG_FILES} == expected
    assert {file.stem for file in DAG_FILES if file.parent.name == "runbooks"} == set(RUNBOOKS)
