"""How far a sink is proved to be complete: what a passed window tells downstream, as an event of the sink's asset."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from psycopg2.extensions import cursor as Cursor

from include.control.windows import Window, newest_passed, not_judged, unsettled


@dataclass(frozen=True)
class CompleteThrough:
    """Everything below these offsets was counted again and agreed, except what could not be judged."""

    stream: str
    sink: str
    epoch: int
    offsets: dict[int, int]
    event_time: datetime | None  # Kafka's time of the newest record of the window that was proved last
    window: int
    not_judged: list[dict[str, Any]]

    def to_plain(self) -> dict[str, Any]:
        return {
            "stream": self.stream,
            "sink": self.sink,
            "tier": "recount",  # not the driver's own word alone (P7.4)
            "epoch": self.epoch,
            "offsets": {str(number): offset for number, offset in self.offsets.items()},
            "event_time": self.event_time.isoformat() if self.event_time else None,
            "window": self.window,
            "not_judged": self.not_judged,
        }


def complete_through(cursor: Cursor, stream: str, sink: str) -> CompleteThrough | None:
    """None if no window has passed. A failed window that nobody has settled holds it back."""
    failed = unsettled(cursor, stream, sink)
    last = newest_passed(cursor, stream, sink, before=failed[0].id if failed else None)
    if last is None:
        return None
    beside = [_told(one) for one in not_judged(cursor, stream, sink) if one.epoch == last.epoch and one.id < last.id]
    newest = last.measured.newest_ms if last.measured else None
    event_time = datetime.fromtimestamp(newest / 1000, UTC) if newest is not None else None
    return CompleteThrough(stream, sink, last.epoch, dict(last.ends), event_time, last.id, beside)


def _told(window: Window) -> dict[str, Any]:
    return {
        "window": window.id,
        "ranges": {str(number): list(span) for number, span in window.ranges.items()},
        "why": window.told,
    }
