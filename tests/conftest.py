"""What all tests share: one whole stack and one Spark session per run, on spare ports, in a folder with a space."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.local_stack.home import StackHome
from include.local_stack.stack import Stack

PROJECT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def stack_home(tmp_path_factory: pytest.TempPathFactory) -> StackHome:
    return StackHome(tmp_path_factory.mktemp("stack") / "with a space")


@pytest.fixture(scope="session")
def stack(stack_home: StackHome) -> Iterator[Stack]:
    """PostgreSQL, Kafka and Airflow, running. A test that harms a part mends it."""
    stack = Stack(stack_home)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


@pytest.fixture
def small_stack(tmp_path: Path) -> Iterator[Stack]:
    """PostgreSQL and Kafka alone, not yet started: for tests about starting and stopping."""
    stack = Stack(StackHome(tmp_path / "small stack"), with_airflow=False)
    try:
        yield stack
    finally:
        stack.down()


@pytest.fixture(scope="session")
def job_environment(stack: Stack) -> Iterator[dict[str, str]]:
    """This process gets what a job under Airflow finds in its environment."""
    before = dict(os.environ)
    environment = stack.airflow_environment()
    os.environ.update(environment)
    yield environment
    os.environ.clear()
    os.environ.update(before)
