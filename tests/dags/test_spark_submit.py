"""The exact spark-submit command of a driver, for each kind of Spark connection, and of a job that a DAG submits.

Rewritten by `make test ARGS="tests/dags --rewrite"`. Every supervised stream of the tests runs by the local one; the standalone
one is run in tests/integration/supervision/test_standalone_master.py.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from include.jars.cache import cache_folder
from include.jars.class_archive import class_archive
from include.spark_settings import PROJECT

GOLDEN = Path(__file__).parent / "golden"
SECRET = "not-for-the-command-line"
BUILD = """
import json, sys
from include.airflow_parts.driver_command import driver_command
from include.contract.environment import load_environment
from include.contract.errors import TidemarkError
try:
    built = driver_command(load_environment("local"), sys.argv[1], "11111111-2222-3333-4444-555555555555")
    print(json.dumps({"arguments": built.arguments, "environment": built.environment}))
except TidemarkError as error:
    print(json.dumps({"refused": str(error)}))
"""

BUILD_JOB = """
import json, sys
from types import SimpleNamespace
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
dag = DagBag(dag_folder=sys.argv[2]).dags["maintain_tables"]
(task,) = dag.tasks
def tell(self, application): print(json.dumps({"arguments": self._build_spark_submit_command(application)}))
SparkSubmitHook.submit = tell
context = {"dag": dag, "dag_run": SimpleNamespace(conf={}), "params": {"stream": sys.argv[1], "dry_run": True}}
task.render_template_fields(context)
task.execute(context)
"""


def build(home: Path, spark: str | None, stream: str = "orders_raw", how: str = BUILD) -> dict[str, object]:
    control = json.dumps({"conn_type": "postgres", "host": "db", "login": "tidemark", "password": SECRET, "schema": "tidemark"})
    connections = {
        "AIRFLOW_CONN_KAFKA_MAIN": '{"conn_type": "kafka", "host": "broker", "port": 9092}',
        "AIRFLOW_CONN_TIDEMARK_CONTROL": control,
        "AIRFLOW_CONN_WAREHOUSE": control,
        **({"AIRFLOW_CONN_SPARK_MAIN": spark} if spark else {}),
    }
    airflow = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__FERNET_KEY": SECRET,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:////{home}/a.db",
    }
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment = {**plain, **connections, **airflow, "PYTHONPATH": str(PROJECT), "TIDEMARK_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", how, stream, str(PROJECT / "dags" / "maintain_tables.py")],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def readable(arguments: list[str]) -> str:
    """One option a line, without what differs from machine to machine."""
    text = (
        "\n".join(arguments)
        .replace("--conf\n", "--conf ")
        .replace(str(class_archive()), "CLASSES")
        .replace(str(cache_folder()), "JARS")
        .replace(str(PROJECT), "PROJECT")
    )
    return re.sub(r"^(--(?:master|name|deploy-mode|launch))\n", r"\1 ", text, flags=re.MULTILINE) + "\n"


MASTERS = {
    "local": '{"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}',
    "standalone": '{"conn_type": "spark", "host": "spark://master", "port": 7077, "extra": {"deploy-mode": "client"}}',
}


@pytest.mark.parametrize("master", MASTERS)
def test_the_command_of_a_driver(master: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    built = build(tmp_path, MASTERS[master])
    command = readable(built["arguments"])  # type: ignore[arg-type]
    golden = GOLDEN / f"{master}.txt"
    if request.config.getoption("--rewrite"):
        golden.write_text(command)
    assert command == golden.read_text()
    assert SECRET not in command


def test_the_command_of_a_job(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    command = readable(build(tmp_path, MASTERS["local"], how=BUILD_JOB)["arguments"])  # type: ignore[arg-type]
    golden = GOLDEN / "maintain_tables.txt"
    if request.config.getoption("--rewrite"):
        golden.write_text(command)
    assert command == golden.read_text()
    assert SECRET not in command


@pytest.mark.parametrize(("stream", "sinks"), [("orders_raw", []), ("user_metrics", ["AIRFLOW_CONN_WAREHOUSE"])])
def test_a_driver_gets_the_connections_it_needs_and_nothing_of_airflows_own(
    stream: str, sinks: list[str], tmp_path: Path
) -> None:
    environment = build(tmp_path, MASTERS["local"], stream)["environment"]
    assert isinstance(environment, dict)
    assert json.loads(environment["AIRFLOW_CONN_TIDEMARK_CONTROL"])["password"] == SECRET
    assert [name for name in environment if name.startswith("AIRFLOW")] == [
        "AIRFLOW_CONN_KAFKA_MAIN",
        "AIRFLOW_CONN_SPARK_MAIN",
        "AIRFLOW_CONN_TIDEMARK_CONTROL",
        *sinks,
    ]


def test_a_missing_connection_is_refused_and_not_sent_to_yarn(tmp_path: Path) -> None:
    assert "There is no Airflow connection spark_main." in str(build(tmp_path, None)["refused"])


def test_cluster_mode_is_refused(tmp_path: Path) -> None:
    cluster = MASTERS["standalone"].replace("client", "cluster")
    assert "drivers run in client mode" in str(build(tmp_path, cluster)["refused"])
