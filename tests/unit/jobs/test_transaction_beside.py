"""A transaction that runs beside: it commits when it is told to, and never otherwise."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from jobs.postgres.transaction_beside import TransactionBeside


def beside(committed: list[str], before: Callable[[], None] = lambda: None) -> TransactionBeside[str, str]:
    def run(wait: Callable[[Any], str]) -> str:
        before()
        committed.append(wait(Mock()))
        return "done"

    return TransactionBeside(run)


def test_it_commits_by_order() -> None:
    committed: list[str] = []
    transaction = beside(committed)
    transaction.wait_until_ready()
    assert committed == []
    assert transaction.commit("the ledger") == "done"
    transaction.give_up()  # changes nothing any more
    assert committed == ["the ledger"]


def test_given_up_it_commits_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    committed: list[str] = []
    beside(committed).give_up()
    assert committed == []
    assert capsys.readouterr().out == ""


def test_what_went_wrong_is_raised_by_whoever_waits_for_it() -> None:
    for ask in (TransactionBeside.wait_until_ready, lambda one: one.commit("the ledger")):
        with pytest.raises(ZeroDivisionError):
            ask(beside([], lambda: divmod(1, 0) and None))


def test_what_went_wrong_is_told_if_nobody_waits_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    beside([], lambda: divmod(1, 0) and None).give_up()
    assert "division" in capsys.readouterr().out
