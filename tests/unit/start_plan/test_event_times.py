"""The time up to which events may be forgotten: read as it is printed, and never without its zone."""

import pytest

from include.start_plan.event_times import read_time, tell_span, tell_time
from jobs.driver_arguments import parse

NAMED = "2026-01-01T12:00:00.123Z"


@pytest.mark.parametrize("milliseconds", [0, 1, 1_767_268_800_123, 1_767_268_800_999])
def test_a_time_is_read_as_it_is_printed(milliseconds: int) -> None:
    assert read_time(tell_time(milliseconds)) == milliseconds


def test_what_the_plan_prints_may_be_given_to_a_driver() -> None:
    wanted = parse(["s", "--state=warm_up", f"--forget-through={NAMED}"])
    assert (wanted.state, wanted.forget_through) == ("warm_up", 1_767_268_800_123)
    assert (parse(["s"]).state, parse(["s"]).forget_through) == ("continue", None)


@pytest.mark.parametrize("text", ["yesterday", "2026-01-01T12:00:00", "1767268800123"])
def test_another_text_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["s", f"--forget-through={text}"])
    assert "is not a time as the plan prints it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("start", "end", "told"),
    [
        ("2026-01-01T09:30:00Z", "2026-01-01T09:35:00Z", "2026-01-01 09:30-09:35 UTC"),
        ("2026-01-01T09:30:30Z", "2026-01-01T09:31:00Z", "2026-01-01 09:30:30-09:31:00 UTC"),
        ("2026-01-01T23:00:00Z", "2026-01-02T00:00:00Z", "2026-01-01 23:00-2026-01-02 00:00 UTC"),
    ],
)
def test_a_window_is_told_as_short_as_it_may_be(start: str, end: str, told: str) -> None:
    assert tell_span(read_time(start), read_time(end)) == told
