"""Derived names, and the way back from a name to what it is of."""

import pytest

from include.contract.identity import (
    checkpoint_folder,
    checkpoint_generation,
    generation_log,
    launch_log,
    log_generation,
    log_launch,
)


@pytest.mark.parametrize("number", [1, 999_999, 1_000_000])
def test_a_generation_is_found_again_by_its_names(number: int) -> None:
    folder = checkpoint_folder("orders", number).removeprefix("orders/")
    log = generation_log("orders", number).removeprefix("orders/")
    assert checkpoint_generation(folder) == checkpoint_generation(f".{folder}.unfinished") == number
    assert log_generation(log) == log_generation(f"{log}.1") == number


def test_a_launch_is_found_again_by_its_log() -> None:
    launch = "0c3e5f9a-1111-4222-8333-0123456789ab"
    assert log_launch(launch_log("orders", launch).removeprefix("orders/")) == launch


@pytest.mark.parametrize(
    "name", ["expired", "c7", "c000007.abc", "c000007 copy", ".c000007", "C000007", "g000007.log.2", "g7.log"]
)
def test_a_foreign_name_is_of_nothing(name: str) -> None:
    assert (checkpoint_generation(name), log_generation(name), log_launch(name)) == (None, None, None)
