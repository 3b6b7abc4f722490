"""Event times as a plan prints them and a person gives them back: in UTC, to the millisecond."""

from datetime import UTC, datetime


def read_time(text: str) -> int:
    """Milliseconds, of a time as a plan prints it. ValueError for anything else: without its zone it would be a guess."""
    told = datetime.fromisoformat(text)
    if told.tzinfo is None:
        raise ValueError(f"{text!r} does not say its zone")
    return round(told.timestamp() * 1000)


def tell_time(milliseconds: int) -> str:
    """As a plan prints it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def tell_span(start_ms: int, end_ms: int) -> str:
    """Of a window, as short as its bounds allow."""
    start, end = (datetime.fromtimestamp(each / 1000, UTC) for each in (start_ms, end_ms))
    clock = "%H:%M" if not (start_ms % 60_000 or end_ms % 60_000) else "%H:%M:%S"
    until = f"{end:{clock}}" if end.date() == start.date() else f"{end:%Y-%m-%d {clock}}"
    return f"{start:%Y-%m-%d {clock}}-{until} UTC"
