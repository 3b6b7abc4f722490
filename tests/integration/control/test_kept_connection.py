"""The connection that is kept from one question to the next: fewer are made, and nobody can tell otherwise."""

import os
import threading

import pytest
from psycopg2.errors import DivisionByZero

from include.control import kept_connection
from include.control.database import ControlDatabase


def backend(control: ControlDatabase) -> int:
    """The server's process that answers."""
    with control.transaction() as cursor:
        return int(cursor.connection.info.backend_pid)


def ask(control: ControlDatabase, question: str, *values: object) -> object:
    with control.transaction() as cursor:
        cursor.execute(question, values)
        return next(iter(cursor.fetchone() or ()), None)


def test_questions_one_after_the_other_go_over_one_connection_that_holds_no_transaction(own_control: ControlDatabase) -> None:
    other = ControlDatabase(own_control.where)
    first = backend(own_control)
    assert backend(own_control) == first
    assert ask(other, "SELECT state FROM pg_stat_activity WHERE pid = %s", first) == "idle"


def test_questions_within_or_beside_a_question_get_connections_of_their_own(own_control: ControlDatabase) -> None:
    found: list[int] = []
    with own_control.transaction() as cursor:
        beside = threading.Thread(target=lambda: found.append(backend(own_control)))
        beside.start()
        beside.join(30)
        found += [backend(own_control), cursor.connection.info.backend_pid]
    assert len(set(found[1:])) == 2
    assert found[0] != found[2]


def test_a_server_that_ended_the_connection_meanwhile_is_asked_over_another(own_control: ControlDatabase) -> None:
    first = backend(own_control)
    assert ask(ControlDatabase(own_control.where), "SELECT pg_terminate_backend(%s, 5000)", first) is True
    assert backend(own_control) != first


def test_nobody_gets_a_connection_on_which_something_failed(own_control: ControlDatabase) -> None:
    first = backend(own_control)
    with pytest.raises(DivisionByZero):
        ask(own_control, "INSERT INTO migration (number) VALUES (9999); SELECT 1 / 0")
    assert backend(own_control) != first
    assert ask(own_control, "SELECT count(*) FROM migration WHERE number = 9999") == 0


def test_a_connection_is_replaced_before_it_is_old(own_control: ControlDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the database is by then, the next one leads there."""
    monkeypatch.setattr(kept_connection, "KEPT_SECONDS", 0)
    control = ControlDatabase(own_control.where)
    assert backend(control) != backend(control)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_a_connection_of_its_own(own_control: ControlDatabase) -> None:
    first = backend(own_control)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if backend(own_control) != first else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert backend(own_control) == first
