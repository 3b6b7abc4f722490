"""For folders whose tests need no Airflow: there `stack` means the one without it. Their conftest.py imports this fixture."""

import pytest

from include.local_stack.stack import Stack


@pytest.fixture(scope="session")
def stack(ground: Stack) -> Stack:
    return ground
