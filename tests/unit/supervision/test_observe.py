"""Since when there has been work to do, when somebody has looked all the time and when nobody has."""

from datetime import UTC, datetime, timedelta

from include.control.stream_states import StreamState
from include.supervision.observe import behind_since

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def before(behind: float | None, observed: float) -> StreamState:
    since = None if behind is None else NOW - timedelta(seconds=behind)
    return StreamState("s", "running", "", 5, 1, NOW, since, NOW - timedelta(seconds=observed))


def test_work_is_remembered_from_look_to_look() -> None:
    assert behind_since(before(400, observed=2), NOW) == NOW - timedelta(seconds=400)


def test_work_begins_now_if_there_was_none_before() -> None:
    assert behind_since(before(None, observed=2), NOW) == NOW
    assert behind_since(None, NOW) == NOW


def test_work_begins_now_if_nobody_has_looked_for_a_while() -> None:
    assert behind_since(before(7200, observed=7100), NOW) == NOW
