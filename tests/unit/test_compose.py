"""docker-compose.yaml keeps the compose schema and our rules. It cannot be run here: no Docker engine is assumed."""

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from include.contract.catalog import load_streams
from include.contract.connections import Connection, variable_name
from include.contract.environment import load_environment
from include.contract.stream_spec import LakeTable
from include.local_stack.compose_env import NAMES, main, write_env
from include.local_stack.postgres import program
from include.local_stack.prepare import UV
from tests.running import PROJECT

Compose = dict[str, Any]
ONE_SHOT = {"airflow-setup"}


@pytest.fixture
def compose() -> Compose:
    return copy.deepcopy(yaml.safe_load((PROJECT / "docker-compose.yaml").read_text()))


def broken_rules(compose: Compose) -> list[str]:
    broken = []
    builders = [name for name, service in compose["services"].items() if "build" in service]
    if len(builders) > 1:  # built in parallel under one tag, all but the first fail
        broken.append(f"{builders[1]}: built a second time")
    for name, service in compose["services"].items():
        if not re.search(r":\d+\.\d+(\.\d+)?[a-z0-9.-]*$", service["image"]):
            broken.append(f"{name}: image {service['image']} is not pinned")
        if name not in ONE_SHOT and "healthcheck" not in service:
            broken.append(f"{name}: no health check")
        broken += [
            f"{name}: port {port} is open to the network"
            for port in service.get("ports", [])
            if not port.startswith("127.0.0.1:")
        ]
        broken += [
            f"{name}: {variable} has a default" for variable, value in service["environment"].items() if _is_open(variable, value)
        ]
    return broken


def _is_open(variable: str, value: str) -> bool:
    is_secret = re.search("PASSWORD|SECRET|FERNET|SQL_ALCHEMY_CONN", variable) or '"password"' in value
    return bool(is_secret) and not re.search(r"\$\{[A-Z_]+:\?[^}]+\}", value)


def test_the_file_keeps_the_compose_schema() -> None:
    checked = schema_check(PROJECT / "docker-compose.yaml")
    assert checked.returncode == 0, checked.stdout


def test_a_file_that_breaks_the_schema_is_found(tmp_path: Path, compose: Compose) -> None:
    compose["services"]["kafka"]["imagge"] = "apache/kafka"
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(compose))
    assert schema_check(tmp_path / "compose.yaml").returncode == 1


def schema_check(file: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_file_keeps_our_rules(compose: Compose) -> None:
    assert broken_rules(compose) == []


@pytest.mark.parametrize(
    ("service", "change", "complaint"),
    [
        ("kafka", lambda service: service.update(image="apache/kafka:latest"), "not pinned"),
        ("api-server", lambda service: service.update(build="."), "built a second time"),
        ("scheduler", lambda service: service.pop("healthcheck"), "no health check"),
        ("api-server", lambda service: service.update(ports=["8080:8080"]), "open to the network"),
        ("postgres", lambda service: service["environment"].update(POSTGRES_PASSWORD="postgres"), "has a default"),  # noqa: S106
        ("postgres", lambda service: service["environment"].update(POSTGRES_PASSWORD="${PASSWORD:-x}"), "has a default"),  # noqa: S106
        ("scheduler", lambda service: service["environment"].update(AIRFLOW_CONN_X='{"password": "x"}'), "has a default"),
    ],
    ids=[
        *("unpinned image", "two builders", "no health check", "open port"),
        *("fixed password", "default password", "fixed password in a connection"),
    ],
)
def test_each_rule_can_be_broken(compose: Compose, service: str, change: Callable[[Any], Any], complaint: str) -> None:
    change(compose["services"][service])
    assert [rule for rule in broken_rules(compose) if rule.startswith(service) and complaint in rule]


def test_every_connection_that_the_environment_names_is_there(compose: Compose) -> None:
    named = load_environment("small_host")
    wanted = (named.spark, named.kafka, named.control)
    sinks = [sink for stream in load_streams().values() for sink in stream.spec.sinks.values()]
    ids = {*(one.connection for one in wanted), *(sink.connection for sink in sinks if not isinstance(sink, LakeTable))}
    variables = {variable_name(one) for one in (*ids, named.housekeeping.airflow_connection)}
    given = compose["services"]["scheduler"]["environment"]
    assert variables == {variable for variable in given if variable.startswith("AIRFLOW_CONN_")}
    airflow = Connection(**{k: v for k, v in json.loads(given["AIRFLOW_CONN_AIRFLOW_DB"]).items() if k != "conn_type"})
    assert (airflow.host, airflow.schema) == ("postgres", "airflow")
    assert given["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].endswith("@postgres:5432/airflow")


def test_the_generated_env_holds_exactly_what_the_file_asks_for() -> None:
    asked_for = set(re.findall(r"\$\{([A-Z_]+):\?", (PROJECT / "docker-compose.yaml").read_text()))
    assert asked_for == set(NAMES)


def test_the_env_file_is_for_its_owner_alone_and_never_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / ".env"
    write_env(file)
    first = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert len({line.partition("=")[2] for line in first.splitlines()}) == len(NAMES)
    assert main(file) == 1
    assert file.read_text() == first
    shown = capsys.readouterr().out
    assert not [line for line in first.splitlines() if line.partition("=")[2] in shown]


def test_the_images_are_the_versions_of_the_embedded_stack(compose: Compose) -> None:
    """What was tested embedded is what runs in containers."""
    locked = (PROJECT / "config" / "jars.lock").read_text()
    kafka = re.search(r"org\.apache\.kafka:kafka_2\.13:(\S+)", locked)
    assert kafka is not None
    assert compose["services"]["kafka"]["image"] == f"apache/kafka:{kafka[1]}"
    postgres = subprocess.run([program("postgres"), "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert compose["services"]["postgres"]["image"].startswith(f"postgres:{postgres}-")


def test_the_image_is_built_from_a_pinned_one_with_the_installer_of_the_venv() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    assert re.search(r"^FROM python:3\.11\.\d+-slim-\w+$", dockerfile, re.MULTILINE)
    assert UV in dockerfile
