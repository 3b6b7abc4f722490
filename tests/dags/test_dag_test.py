"""A runbook by `dag.test()`, in one process and without the scheduler, as a person who changes one would try it."""

import json
import subprocess
import sys

import pytest

from include.control.database import ControlDatabase
from include.control.desired import declare
from include.control.journal import read_journal
from include.local_stack.stack import Stack
from tests.running import PROJECT

STREAM = "orders_raw"
TEST = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
dag = DagBag(dag_folder=sys.argv[1]).dags["stop_stream"]
print("ended as", dag.test(run_conf=json.loads(sys.argv[2])).state)
"""


@pytest.mark.thorough
def test_a_runbook_can_be_tried_in_one_process(stack: Stack) -> None:
    control = ControlDatabase(stack.postgres.connection("tidemark"))
    control.migrate()
    with control.transaction() as cursor:
        declare(cursor, STREAM, running=False)
    conf = json.dumps({"stream": STREAM, "reason": "tried in one process"})
    done = subprocess.run(
        [sys.executable, "-c", TEST, str(PROJECT / "dags" / "runbooks" / "stop_stream.py"), conf],
        env=stack.airflow_environment(),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "ended as success" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    with control.transaction() as cursor:
        assert "tried in one process" in str(read_journal(cursor, STREAM, 5))
