"""Streams as a table that a person reads: in the log of supervision and in `make status`."""

from collections.abc import Iterator
from datetime import UTC, datetime

from include.contract.text_table import age, align, cut
from include.control.state_health import StateHealth, StreamHealth
from include.control.stream_states import StreamState

COLUMNS = ("STREAM", "STATE", "SINCE", "GENERATION", "LAG", "WHAT WAS SEEN")
STATE_COLUMNS = ("STREAM", "OPERATOR", "ROWS", "MEMORY", "DISK", "WATERMARK", "BEHIND NEWEST EVENT", "BEHIND NOW")
DETAIL_WIDTH = 140


def render(states: list[StreamState], now: datetime) -> str:
    return align([COLUMNS, *(_row(state, now) for state in states)])


def _row(state: StreamState, now: datetime) -> tuple[str, ...]:
    shown = cut(" ".join(state.detail.split()), DETAIL_WIDTH)
    lag = "-" if state.lag is None else f"{state.lag:,}"
    return (state.stream, state.state, age((now - state.since).total_seconds()), str(state.generation or "-"), lag, shown)


def render_states(streams: list[StreamHealth], now: datetime) -> str:
    """What stateful streams hold, as of their newest batch: a line per operator."""
    return align([STATE_COLUMNS, *(row for one in streams for row in _operator_rows(one, now))])


def _operator_rows(stream: StreamHealth, now: datetime) -> Iterator[tuple[str, ...]]:
    for one in stream.health.operators:
        sizes = (f"{one.rows:,}", _size(one.memory_bytes), _size(one.disk_bytes))
        yield (stream.stream, one.operator, *sizes, *_event_time(stream.health, now))


def _event_time(health: StateHealth, now: datetime) -> tuple[str, str, str]:
    """Before the first batch whose watermark is set there is none."""
    if not health.watermark_ms:
        return "-", "-", "-"
    reached = datetime.fromtimestamp(health.watermark_ms / 1000, UTC)
    newest = "-" if health.highest_ms is None else age((health.highest_ms - health.watermark_ms) / 1000)
    return f"{reached:%Y-%m-%d %H:%M:%S}", newest, age((now - reached).total_seconds())


def _size(count: int) -> str:
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} B"
