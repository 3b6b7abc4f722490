"""Failpoints are off unless the environment asks for one that there is."""

import pytest

from jobs import failpoints
from jobs.failpoints import VARIABLE, Failpoint, FailpointReached, FailpointUnknown, check_failpoint, reach


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    failpoints._passed.clear()


def test_nobody_asked() -> None:
    check_failpoint()
    for point in Failpoint:
        reach(point)


def test_a_place_raises_at_the_turn_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sink.before_commit=raise@2")
    check_failpoint()
    reach(Failpoint.BEFORE_COMMIT)
    reach(Failpoint.AFTER_COMMIT)
    with pytest.raises(FailpointReached):
        reach(Failpoint.BEFORE_COMMIT)
    reach(Failpoint.BEFORE_COMMIT)


@pytest.mark.parametrize("asked", ["sink.before_comit=kill", "sink.before_commit=explode", "sink.before_commit", "x=kill@0"])
def test_a_misspelt_one_is_refused_with_all_names(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, asked)
    with pytest.raises(FailpointUnknown, match=r"places: take_over\.after_generation, .*; actions: kill, stop, sleep, raise"):
        check_failpoint()
