"""A driver in client mode against a Spark standalone master, started by the very command that the launcher uses."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from include.control.generations import write_launch
from include.control.progress import request_stop
from include.local_stack.stack import Stack
from tests.running import PROJECT, free_port, wait_for
from tests.supervised import SupervisedStream

BUILD = """
import json, sys
from include.airflow_parts.driver_command import driver_command
from include.contract.environment import load_environment
built = driver_command(load_environment(), *sys.argv[1:])
print(json.dumps([built.arguments, built.environment]))
"""


@pytest.fixture
def master(stack: Stack, tmp_path: Path) -> Iterator[int]:
    """Its port. One worker with two cores."""
    port = free_port()
    environment = {**stack.job_environment(), "SPARK_WORKER_DIR": str(tmp_path / "work"), "SPARK_NO_DAEMONIZE": "1"}
    address = ["--host", "127.0.0.1", "--webui-port", "0"]
    with (
        java(environment, tmp_path, "org.apache.spark.deploy.master.Master", *address, "--port", str(port)) as log,
        java(
            environment, tmp_path, "org.apache.spark.deploy.worker.Worker", *address, "--cores", "2", "--memory", "1g",
            f"spark://127.0.0.1:{port}",
        ),
    ):  # fmt: skip
        wait_for("the worker to register", lambda: "Registering worker" in log.read_text(), 60)
        yield port


@contextmanager
def java(environment: dict[str, str], folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    log = folder / f"{name}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [Path(sys.executable).parent / "spark-class", name, *arguments], env=environment, stdout=out, stderr=out, cwd=folder
        )
    try:
        yield log
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.thorough
def test_a_driver_runs_on_a_standalone_master(stack: Stack, master: int, tmp_path: Path) -> None:
    stream = SupervisedStream(stack, tmp_path)
    stream.send(60, bad=2)
    spark = json.dumps({"conn_type": "spark", "host": "spark://127.0.0.1", "port": master, "extra": {"deploy-mode": "client"}})
    environment = {**stream.variables(), "AIRFLOW_CONN_SPARK_MAIN": spark, "AIRFLOW_HOME": str(tmp_path / "airflow")}
    launch = write_launch(stream.control, stream.name, asked_by="a test", reason="a cluster", approvals={}).id
    built = subprocess.run(
        [sys.executable, "-c", BUILD, stream.name, launch],
        env=environment,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    arguments, driver_environment = json.loads(built.stdout.splitlines()[-1])
    assert arguments[1:3] == ["--master", f"spark://127.0.0.1:{master}"]
    with (tmp_path / "driver.log").open("w") as log:
        driver = subprocess.Popen(arguments, env=driver_environment, cwd=tmp_path, stdout=log, stderr=log)
    try:
        stream.wait_until_delivered()
        with stream.control.transaction() as cursor:
            request_stop(cursor, stream.name, 1, asked_by="a test", reason="it is over")
        assert driver.wait(60) == 0, (tmp_path / "driver.log").read_text()
    finally:
        driver.kill()
        driver.wait(10)
