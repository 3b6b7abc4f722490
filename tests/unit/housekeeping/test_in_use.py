"""What must be kept of a stream, as a table: each line differs from one that may go in one thing."""

import pytest

from include.housekeeping.in_use import Found, InUse, Reason, why_keep

BEFORE = 1000.0
IN_USE = InUse({"orders": 7}, frozenset({("orders", 5)}), frozenset({"living"}))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (Found("orders", 999, generation=6), None),
        (Found("orders", 1000, generation=6), Reason.YOUNG),
        (Found("orders", 999, generation=7), Reason.NEWEST),
        (Found("orders", 999, generation=8), Reason.NEWEST),
        (Found("orders", 999, generation=5), Reason.LIVING),
        (Found("others", 999, generation=5), Reason.UNKNOWN),
        (Found("others", 999, generation=6), Reason.UNKNOWN),
        (Found("orders", 999, launch="ended"), None),
        (Found("others", 999, launch="ended"), None),
        (Found("orders", 1000, launch="ended"), Reason.YOUNG),
        (Found("orders", 999, launch="living"), Reason.LIVING),
        (Found("orders", 999), Reason.FOREIGN),
    ],
    ids=[
        "old and over",
        "young",
        "newest generation",
        "began after we looked",
        "its driver may live",
        "same number, other stream",
        "no generation is known",
        "launch that ended",
        "launch of a stream that never ran",
        "young launch",
        "launch that may live",
        "foreign name",
    ],
)
def test_what_is_kept_and_why(found: Found, reason: Reason | None) -> None:
    assert why_keep(found, IN_USE, BEFORE) is reason
