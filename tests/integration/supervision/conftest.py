"""One supervised stream for the tests of this folder that share it, and streams of a test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from include.local_stack.stack import Stack
from tests.airflow_api import AirflowApi
from tests.supervised import SupervisedStream


@pytest.fixture(scope="session")
def airflow(stack: Stack) -> AirflowApi:
    return AirflowApi(stack)


@pytest.fixture
def make_stream(stack: Stack, tmp_path: Path) -> Iterator[Callable[..., SupervisedStream]]:
    made: list[SupervisedStream] = []

    def make(**changes: Any) -> SupervisedStream:
        made.append(SupervisedStream(stack, tmp_path, config=stack.home.config, changes=changes))
        return made[-1]

    yield make
    for stream in made:
        stream.remove()
