"""Reports as HTML pages: one per window, one per day and stream. The same windows give the same bytes; nothing is fetched."""

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from include.contract.catalog import Stream
from include.control.windows import Verdict, Window
from include.reconciliation.expectations import Expected, Frame, frames

COLORS = {Verdict.PASSED: "#1a7f37", Verdict.FAILED: "#b42318", Verdict.NOT_JUDGED: "#8a6100", Verdict.REOPENED: "#8a6100"}
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1f2328; }}
table {{ border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }}
th, td {{ border: 1px solid #d0d7de; padding: .3rem .6rem; }}
td {{ text-align: right; font-variant-numeric: tabular-nums; }} th {{ background: #f6f8fa; text-align: left; font-weight: 600; }}
td.words {{ text-align: left; }} .differs {{ background: #ffebe9; }}
</style></head><body>
{body}
</body></html>
"""


def write_window_page(folder: Path, stream: Stream, window: Window) -> Path:
    return _write(folder / window_page(window.id), f"Window {window.id} of {stream.name}", _window_body(stream, window))


def write_day_page(folder: Path, stream: Stream, day: str, windows: Sequence[Window]) -> Path:
    return _write(folder / day_page(day), f"{stream.name} on {day}", _day_body(stream, day, windows))


def window_page(window: int) -> str:
    return f"window-{window:08d}.html"


def day_page(day: str) -> str:
    return f"day-{day}.html"


def _write(file: Path, title: str, body: Iterable[str]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(PAGE.format(title=html.escape(title), body="\n".join(body)))
    return unfinished.rename(file)


def _window_body(stream: Stream, window: Window) -> list[str]:
    day = f"{window.chosen_at:%Y-%m-%d}"
    lines = [
        f"<h1>{stream.name}, sink {window.sink}, window {window.id}: {_verdict(window)}</h1>",
        f"<p>{html.escape(window.told or 'It was not judged yet.')}</p>",
        f"<p>{window.offsets:,} offsets of epoch {window.epoch}, chosen at {window.chosen_at:%Y-%m-%d %H:%M:%S} UTC"
        f"{' by hand' if window.by_hand else ''}; commits {window.after_version + 1} to {window.up_to_version} of the table, "
        f'measured at version {window.snapshot}. <a href="{day_page(day)}">All windows of {day}</a>.</p>',
    ]
    if window.audited is None or window.measured is None:
        return lines
    for frame in frames(stream, window, window.audited, window.measured):
        if frame.rows:
            lines.append(_frame_table(frame))
    trouble = [*(one.tell() for one in window.measured.differences), *window.audited.findings, *window.measured.findings]
    if trouble:
        lines += ["<h2>What differs</h2>", _list(trouble)]
    if window.measured.not_recounted:
        lines += ["<h2>What Kafka cannot tell any more</h2>"]
        lines += [_list(f"partition {number}: {why}" for number, why in sorted(window.measured.not_recounted.items()))]
    return lines


def _frame_table(frame: Frame) -> str:
    """A line per expectation, a column per partition: what should be equal stands side by side, what is not stands out."""
    heads = [
        f"partition {row['partition']}, {row['start']:,} to {row['end']:,}" if "partition" in row else "" for row in frame.rows
    ]
    lines = ["<table>", _row("th", ["expected", *heads])]
    for expected in frame.expected:
        cells = "".join(_cell(expected, row) for row in frame.rows)
        lines.append(f"<tr><th>{html.escape(expected.sentence)}</th>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _cell(expected: Expected, row: dict[str, Any]) -> str:
    found = row[expected.column]
    if expected.other is None:
        holds, text = found <= expected.at_most, f"{_number(found)} of at most {_number(expected.at_most)}"
    else:
        holds = found == row[expected.other]
        text = f"{_number(found)} {'=' if holds else '&ne;'} {_number(row[expected.other])}"
    return f"<td>{text}</td>" if holds else f'<td class="differs">{text}</td>'


def _day_body(stream: Stream, day: str, windows: Sequence[Window]) -> list[str]:
    count = {verdict: sum(window.verdict is verdict for window in windows) for verdict in Verdict}
    summary = ", ".join(f"{number} {verdict}" for verdict, number in count.items() if number) or "no window was judged"
    lines = [f"<h1>{stream.name} on {day}</h1>", f"<p>{html.escape(stream.spec.description)}. {summary}.</p>", "<table>"]
    lines.append(_row("th", ["window", "sink", "chosen at (UTC)", "offsets", "verdict", "what was found"]))
    for window in windows:
        link = f'<a href="{window_page(window.id)}">{window.id}</a>'
        told = html.escape(window.told or "")
        lines.append(
            f'<tr><td>{link}</td><td class="words">{window.sink}</td><td>{window.chosen_at:%H:%M:%S}</td>'
            f'<td>{window.offsets:,}</td><td class="words">{_verdict(window)}</td><td class="words">{told}</td></tr>'
        )
    return [*lines, "</table>"]


def _verdict(window: Window) -> str:
    text = str(window.verdict) if window.verdict else "not judged yet"
    color = COLORS.get(window.verdict, "#57606a") if window.verdict else "#57606a"
    return f'<span style="color: {color}">{text}</span>'


def _row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else html.escape(str(value))


def _list(sentences: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(one)}</li>" for one in sentences) + "</ul>"
