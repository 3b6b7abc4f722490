"""Pages say what a person needs, the same bytes for the same window, and fetch nothing."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from include.contract.catalog import load_streams
from include.control.window_contents import Audited, Booked, Counted, Difference, Measured, Segment
from include.control.windows import Verdict, Window
from include.reconciliation.report import write_day_page, write_window_page

STREAM = load_streams()["orders_raw"]
COUNTED = Counted(kafka_read=10, kafka_good=10, kafka_checksum="5", table_rows=9, table_coordinates=9, table_checksum="4")
LOST = Difference(kind="lost", partition=2, records=1, ranges=((7, 8),), example="event_id <b>e7</b>")
WINDOW = Window(
    stream="orders_raw",
    sink="lake",
    run="a run",
    by_hand=False,
    epoch=1,
    topic_id="id",
    after_version=3,
    up_to_version=6,
    snapshot=6,
    starts={2: 0},
    ends={2: 10},
    id=41,
    chosen_at=datetime(2026, 11, 17, 3, 4, 5, tzinfo=UTC),
    audited=Audited(segments=(Segment(partition=2, start=0, end=10, spec_hash="h"),), booked={2: Booked(read=10, delivered=10)}),
    measured=Measured(counted={2: COUNTED}, differences=(LOST,)),
    verdict=Verdict.FAILED,
    told="1 lost in partition 2: offset 7.",
    judged_at=None,
)


def test_a_window_tells_what_differs_and_where(tmp_path: Path) -> None:
    page = write_window_page(tmp_path, STREAM, WINDOW).read_text()
    assert "orders_raw, sink lake, window 41" in page
    assert '<td class="differs">10 &ne; 9</td>' in page
    assert "1 lost in partition 2: offset 7 (event_id &lt;b&gt;e7&lt;/b&gt;)" in page, "what a record says is text, not markup"
    assert "commits 4 to 6 of the table" in page


def test_a_day_lists_its_windows_with_their_verdicts(tmp_path: Path) -> None:
    passed = replace(WINDOW, id=42, verdict=Verdict.PASSED, told="10 records agree.")
    page = write_day_page(tmp_path, STREAM, "2026-11-17", [WINDOW, passed]).read_text()
    assert "1 passed, 1 failed" in page
    assert page.index('href="window-00000041.html"') < page.index('href="window-00000042.html"')


def test_the_same_window_gives_the_same_bytes_and_fetches_nothing(tmp_path: Path) -> None:
    pages = [write_window_page(tmp_path / name, STREAM, WINDOW).read_bytes() for name in ("one", "two")]
    assert pages[0] == pages[1]
    assert re.findall(rb"https?://|<script|<link|<img", pages[0]) == []
