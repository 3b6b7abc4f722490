"""The arithmetic by which the demo judges dedupe and windows: right on a table that is right, and named where it is not."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from include.local_stack.demo.count_payments import count_windows
from include.local_stack.demo.payments import Payment, SentPayments

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIVE_PAST = NOON + timedelta(minutes=5)
RIGHT = [("u", NOON, 2, 300), ("u", FIVE_PAST, 1, 50)]


def sent() -> SentPayments:
    one, two = Payment("a", "u", 100, NOON), Payment("b", "u", 200, NOON + timedelta(seconds=299))
    three, late = Payment("c", "u", 50, FIVE_PAST), Payment("d", "u", 7, NOON - timedelta(hours=1), is_late=True)
    return SentPayments(dict(zip([(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)], [one, two, one, three, late], strict=True)))


def table(place: Path, rows: list[tuple[str, datetime, int, int]]) -> Path:
    names = ("user_id", "window_start", "payments", "amount_cents")
    write_deltalake(place, pa.Table.from_pylist([{**dict(zip(names, row, strict=True)), "_deleted": False} for row in rows]))
    return place


def test_copies_are_counted_once_and_late_ones_not_at_all(tmp_path: Path) -> None:
    counted = count_windows(sent(), table(tmp_path / "t", RIGHT))
    assert counted.is_balanced
    assert (counted.produced, counted.delivered, counted.duplicates, counted.late) == (5, 3, 1, 1)
    assert sent().ends == {0: 2, 1: 2, 2: 1}


@pytest.mark.parametrize(
    ("rows", "lost", "twice"),
    [
        pytest.param([("u", NOON, 3, 400), RIGHT[1]], 0, 1, id="a copy passed"),
        pytest.param([RIGHT[0]], 1, 0, id="a window is missing"),
        pytest.param([*RIGHT, ("u", NOON - timedelta(hours=1), 1, 7)], 0, 1, id="a late one passed"),
        pytest.param([("u", NOON, 2, 301), RIGHT[1]], 0, 0, id="the cents are wrong"),
        pytest.param([*RIGHT, RIGHT[1]], 0, 0, id="a window is there twice"),
    ],
)
def test_a_table_that_is_not_right_is_not_balanced(
    tmp_path: Path, rows: list[tuple[str, datetime, int, int]], lost: int, twice: int
) -> None:
    counted = count_windows(sent(), table(tmp_path / "t", rows))
    assert not counted.is_balanced
    assert counted.named
    assert (counted.lost, counted.delivered_twice) == (lost, twice)
