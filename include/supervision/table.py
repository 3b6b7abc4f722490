"""Streams as a table that a person reads: in the log of supervision and in `make status`."""

from datetime import datetime

from include.contract.text_table import age, align, cut
from include.control.stream_states import StreamState

COLUMNS = ("STREAM", "STATE", "SINCE", "GENERATION", "LAG", "WHAT WAS SEEN")
DETAIL_WIDTH = 140


def render(states: list[StreamState], now: datetime) -> str:
    return align([COLUMNS, *(_row(state, now) for state in states)])


def _row(state: StreamState, now: datetime) -> tuple[str, ...]:
    shown = cut(" ".join(state.detail.split()), DETAIL_WIDTH)
    lag = "-" if state.lag is None else f"{state.lag:,}"
    return (state.stream, state.state, age((now - state.since).total_seconds()), str(state.generation or "-"), lag, shown)
