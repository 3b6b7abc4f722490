"""The line per batch: how much, how fast, how far behind, and when it will have caught up."""

from dataclasses import replace

import pytest

from jobs import live_line
from jobs.batch import Delivered
from jobs.live_line import LiveLine
from jobs.state_health import Dropped


class Clock:
    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(live_line, "time", clock)
    return clock


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.strip()


def done(batch: int, read: int, *, quarantined: int = 0) -> Delivered:
    return Delivered(batch, read, read - quarantined, quarantined, 0, {0: 1})


def test_a_line_tells_rows_rate_lag_and_forecast(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    line = LiveLine("orders", 3, {0: 1_000, 1: 0})
    line.begin(200, 200)
    assert said(capsys) == "orders generation 3 begins at 0: 1,000, 1: 0"
    line.batch(done(0, 1000, quarantined=2), 2.0, {0: 10_000}, 9_000)
    assert said(capsys).endswith("998 delivered, 2 quarantined in   2.0 s (500/s), lag 9,000, caught up in 18 s")
    clock.seconds = 10
    line.batch(done(1, 1000), 2.0, {0: 11_000}, 9_000)  # 100 a second arrive
    assert said(capsys).endswith("(500/s), lag 9,000, caught up in 22 s")
    clock.seconds = 20
    line.batch(done(2, 1000), 2.0, {0: 21_000}, 18_000)
    assert said(capsys).endswith("lag 18,000, falling behind (1,000/s arrive)")
    clock.seconds = 21
    line.batch(done(3, 10), 1.0, {0: 21_000}, 0)
    assert said(capsys).endswith("caught up")


def test_what_a_state_kept_out_is_told_and_a_batch_without_records_makes_no_forecast(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    line = LiveLine("orders", 3, {0: 0})
    line.batch(done(0, 1000), 2.0, {0: 1000}, 0, Dropped(3, 1200, by_window=False).told)
    assert "1,000 delivered, 1,200 duplicates, 3 late in" in said(capsys)
    clock.seconds = 10
    line.batch(done(1, 1000), 2.0, {0: 1000}, 0, Dropped(2, 0, by_window=True).told)
    assert "1,000 delivered, late for 2 closed windows in" in said(capsys)
    clock.seconds = 20
    line.batch(done(2, 0), 2.0, {0: 1080}, 80, Dropped(0, 0, by_window=False).told)
    assert said(capsys).endswith("0 delivered in   2.0 s (0/s), lag 80")


def test_a_smaller_batch_than_declared_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    LiveLine("orders", 3, {0: 0}).begin(100, 200)
    assert "100 records a batch after it ran out of memory" in said(capsys)


def test_what_is_read_for_a_state_alone_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    LiveLine("orders", 3, {0: 0}).batch(replace(done(4, 0), again=200_000), 3.2, {0: 900_000}, 700_000)
    assert said(capsys).endswith("batch     4:   200,000 read again for its state in   3.2 s")
