"""Tables that a person reads in a terminal: aligned columns, cut sentences, ages in one unit."""

from collections.abc import Sequence


def align(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def age(seconds: float) -> str:
    for unit_seconds, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit_seconds:
            return f"{seconds // unit_seconds:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
