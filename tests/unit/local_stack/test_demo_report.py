"""What the demo says at its end: balanced only if everything agrees."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from include.control.windows import Verdict, Window
from include.local_stack.demo.count import Count
from include.local_stack.demo.driver import Kill
from include.local_stack.demo.eyes import Batch
from include.local_stack.demo.parts_played import PlayedSink
from include.local_stack.demo.report import make_report

COUNTED = Count(produced=100, delivered=90, quarantined=4, filtered=6, delivered_twice=0, lost=0)
SINKS = [("user_metrics", "lake"), ("user_metrics", "totals"), ("orders_to_postgres", "warehouse")]
KILLS = [Kill("2026-11-17T10:00:00", 4711, 2, "offsets/2 is there, commits/2 is not")]


class NoEye:
    def version(self) -> int:
        return -1

    def note(self, version: int) -> dict[str, Any]:
        return vars(Batch(0, version, {}))


def window(sink: str, verdict: Verdict = Verdict.PASSED) -> Window:
    spans: dict[int, int] = {0: 100}
    now = datetime.now(UTC)
    return Window("user_metrics", sink, "demo", False, 1, "t", -1, 5, 5, {}, spans, 1, now, None, None, verdict, "", now)


def report(counts: list[Count], windows: list[Window]) -> dict[str, Any]:
    played = [PlayedSink(stream, sink, NoEye(), lambda: COUNTED) for stream, sink in SINKS]
    return make_report(list(zip(played, counts, strict=True)), windows, ("user_metrics",), KILLS, {"user_metrics": 24.44})


def test_a_report_has_what_others_read_from_it() -> None:
    told = report([COUNTED] * 3, [window("lake"), window("totals")])
    assert told["balanced"] is True
    assert told["streams"][0] == {
        **{"stream": "user_metrics", "sink": "lake", "produced": 100, "delivered": 90, "quarantined": 4, "filtered": 6},
        **{"delivered_twice": 0, "lost": 0, "superseded": 0, "duplicates": 0, "late": 0, "recovery_seconds": 24.4},
    }
    assert [one["recovery_seconds"] for one in told["streams"]] == [24.4, 24.4, None]
    assert told["kills"] == [vars(KILLS[0])]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("harm", [{"delivered": 89}, {"named": ("1 lost: ...",)}])
def test_one_sink_that_does_not_agree_is_enough(number: int, harm: dict[str, Any]) -> None:
    counts = [replace(COUNTED, **harm) if place == number else COUNTED for place in range(3)]
    assert report(counts, [window("lake"), window("totals")])["balanced"] is False


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.NOT_JUDGED])
def test_so_is_one_window_that_did_not_pass(verdict: Verdict) -> None:
    assert report([COUNTED] * 3, [window("lake"), window("totals", verdict)])["balanced"] is False
    assert report([COUNTED] * 3, [window("lake")])["balanced"] is False
