"""What the demo says at its end: the stranger's counts as a table, and whether everything agrees."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from include.control.windows import Window
from include.local_stack.demo.count import Count
from include.local_stack.demo.driver import Kill
from include.local_stack.demo.parts_played import PlayedSink
from include.local_stack.progress import say

COLUMNS = {
    "produced": 10,
    "delivered": 11,
    "quarantined": 13,
    "filtered": 10,
    "superseded": 12,
    "duplicates": 12,
    "late": 6,
    "twice": 7,
    "lost": 6,
}


def make_report(
    counted: list[tuple[PlayedSink, Count]],
    windows: list[Window],
    reconciled: tuple[str, ...],
    kills: list[Kill],
    recoveries: Mapping[str, float],
) -> dict[str, Any]:
    """`reconciled`: the streams of which every sink must have a window that passed."""
    say(f"  {'':<30}{''.join(f'{name:>{width}}' for name, width in COLUMNS.items())}")
    for sink, one in counted:
        numbers = {**_numbers(one), "twice": one.delivered_twice}
        say(f"  {sink.name:<30}{''.join(f'{numbers[name]:>{width},}' for name, width in COLUMNS.items())}")
        for sentence in one.named:
            say(f"    {sentence}")
    passed = {f"{window.stream}.{window.sink}" for window in windows if window.verdict == "passed"}
    balanced = all(one.is_balanced and (sink.stream not in reconciled or sink.name in passed) for sink, one in counted)
    back = {stream: round(seconds, 1) for stream, seconds in recoveries.items()}
    streams = [
        {"stream": sink.stream, "sink": sink.sink, **_numbers(one), "recovery_seconds": back.get(sink.stream)}
        for sink, one in counted
    ]
    return {"balanced": balanced, "streams": streams, "kills": [asdict(kill) for kill in kills]}


def conclude(report: Mapping[str, Any]) -> None:
    if report["balanced"]:
        seconds = max(stream["recovery_seconds"] or 0 for stream in report["streams"])
        killed = f"though drivers were killed {len(report['kills'])} times and one lost its state"
        say(f"\nEvery record exactly once, {killed}; back within {seconds:.0f} s. var/demo/report.json")
    else:
        say("\nTHE BOOKS DO NOT BALANCE: see what is named above, and var/demo/report.json")


def _numbers(counted: Count) -> dict[str, int]:
    return {name: value for name, value in asdict(counted).items() if name != "named"}
