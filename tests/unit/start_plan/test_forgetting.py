"""What follows from forgetting, in words: which windows keep their last value."""

import pytest

from include.start_plan.forgetting import Windows, forgets

MINUTE = 60_000
TUMBLING, SLIDING = Windows(5 * MINUTE, 5 * MINUTE), Windows(5 * MINUTE, 2 * MINUTE)


@pytest.mark.parametrize(
    ("windows", "forgotten", "watermark", "kept"),
    [
        pytest.param(TUMBLING, 52, 47, [45, 50], id="the one that the watermark is in, and the one that the time is in"),
        pytest.param(TUMBLING, 50, 50, [50], id="one that ends at the watermark is closed"),
        pytest.param(TUMBLING, 44, 47, [], id="none that is open began so early"),
        pytest.param(SLIDING, 52, 47, [44, 46, 48, 50, 52], id="windows that overlap"),
    ],
)
def test_open_windows_that_began_by_then_keep_their_value(
    windows: Windows, forgotten: int, watermark: int, kept: list[int]
) -> None:
    assert [start // MINUTE for start in windows.kept(forgotten * MINUTE, watermark * MINUTE)] == kept


@pytest.mark.parametrize(
    ("windows", "forgotten", "has_dedupe", "told"),
    [
        (TUMBLING, 48, True, "events up to 1970-01-01T00:48:00.000Z would pass; window 1970-01-01 00:45-00:50 UTC keeps"),
        (TUMBLING, 48, False, ": window 1970-01-01 00:45-00:50 UTC keeps its last value."),
        (TUMBLING, 44, False, ": no window that is open is touched."),
        (SLIDING, 52, False, ": 5 windows from 1970-01-01 00:44-00:49 UTC to 1970-01-01 00:52-00:57 UTC keep their last value."),
        (Windows(5 * MINUTE, 5 * MINUTE, is_final=True), 48, False, ": window 1970-01-01 00:45-00:50 UTC is never given out."),
        (None, 48, True, ": duplicates of events up to 1970-01-01T00:48:00.000Z would pass."),
    ],
)  # fmt: skip
def test_the_consequence_is_exact(windows: Windows | None, forgotten: int, has_dedupe: bool, told: str) -> None:
    assert told in forgets(forgotten * MINUTE, 47 * MINUTE, windows, has_dedupe=has_dedupe).sentence
