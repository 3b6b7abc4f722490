"""Durations are said as people write them."""

from datetime import timedelta

import pytest

from include.contract.quantities import in_words, parse_duration


@pytest.mark.parametrize("text", ["1 second", "90 seconds", "10 minutes", "1 hour", "25 hours", "30 days", "1,000 days"])
def test_a_duration_is_said_in_its_largest_whole_unit(text: str) -> None:
    assert in_words(parse_duration(text.replace(",", ""))) == text


def test_sixty_minutes_are_an_hour() -> None:
    assert in_words(timedelta(minutes=60)) == "1 hour"
