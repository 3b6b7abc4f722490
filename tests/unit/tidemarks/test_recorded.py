"""The batches that logs have recorded: those of one sink go on where the log of another, which was added later, begins."""

import pytest

from include.tidemarks.note import EventClock
from include.tidemarks.recorded import RecordedBatch, Recording


def batch(start: int, end: int, watermark: int = 0, *, is_first: bool = False) -> RecordedBatch:
    return RecordedBatch({0: start}, {0: end}, EventClock(watermark_ms=watermark, late_ms=0), is_first=is_first)


HISTORY = (batch(0, 10, 1, is_first=True), batch(10, 20, 2), batch(20, 20, 3), batch(20, 30, 4))
WHOLE = Recording(1, HISTORY)


@pytest.mark.parametrize("from_batch", [1, 2, 3])
@pytest.mark.parametrize("up_to", [4, 3])
def test_what_came_before_a_sink_was_added_is_in_the_log_of_another(from_batch: int, up_to: int) -> None:
    """Also if that one lacks the newest batch."""
    added, old = Recording(1, HISTORY[from_batch:], is_whole=False), Recording(1, HISTORY[:up_to])
    assert added.preceded_by(old) == WHOLE


def test_logs_that_do_not_meet_are_not_joined() -> None:
    added = Recording(1, HISTORY[3:], is_whole=False)
    assert added.preceded_by(Recording(1, HISTORY[:1])) == added


def test_a_log_without_batches_hides_none() -> None:
    assert Recording(1, is_whole=False).preceded_by(WHOLE) == WHOLE


def test_a_log_that_is_cleaned_up_too_stays_so() -> None:
    added, old = Recording(1, HISTORY[3:], is_whole=False), Recording(1, HISTORY[1:], is_whole=False)
    assert added.preceded_by(old) == Recording(1, HISTORY[1:], is_whole=False)


def test_a_partition_that_is_not_spoken_of_is_at_0() -> None:
    assert HISTORY[0].ends_at({0: 10, 1: 0}, 1)
    assert not HISTORY[0].ends_at({0: 10, 1: 1}, 1)
    assert not HISTORY[0].ends_at({0: 10}, 2)
