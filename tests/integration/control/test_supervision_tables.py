"""What supervision and runbooks write: what should be, the pause, incidents, locks, launches by request, the heartbeat."""

import threading
import uuid

import pytest
from psycopg2.extensions import cursor as Cursor

from include.control.database import ControlDatabase, StreamBusy
from include.control.desired import declare, pause_all, read_desired, read_pause, resume_all, set_desired
from include.control.generations import find_launch, write_launch
from include.control.incidents import close_incidents, open_incident, read_open_incidents
from include.control.journal import Entry, read_journal
from include.control.stream_states import beat, read_heartbeat
from include.supervision.outside_eye import look_from_outside


@pytest.fixture
def control(own_control: ControlDatabase) -> ControlDatabase:
    return own_control


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


def journal_of(cursor: Cursor, name: str) -> list[Entry]:
    return read_journal(cursor, name, 50)


def test_a_file_declares_once_and_then_a_person_decides(control: ControlDatabase, name: str) -> None:
    with control.transaction() as cursor:
        declare(cursor, name, running=False)
        declare(cursor, name, running=True)
        assert read_desired(cursor)[name].running is False
        assert read_desired(cursor)[name].reason == "enabled: false"
        set_desired(cursor, name, running=False, set_by="somebody", reason="still not")
        assert [entry.event for entry in journal_of(cursor, name)] == ["declared", "desired"]
        assert journal_of(cursor, name)[-1].detail == {"reason": "still not", "before": "stopped", "after": "stopped"}


def test_the_first_word_of_a_pause_stands(control: ControlDatabase) -> None:
    with control.transaction() as cursor:
        assert pause_all(cursor, set_by="first", reason="one")
        assert not pause_all(cursor, set_by="second", reason="two")
        pause = read_pause(cursor)
        assert pause is not None
        assert pause.set_by == "first"
        assert resume_all(cursor, set_by="second", reason="over")
        assert not resume_all(cursor, set_by="second", reason="over")


def test_an_incident_is_opened_once_until_it_is_closed(control: ControlDatabase, name: str) -> None:
    def fail(title: str) -> None:
        with control.transaction() as cursor:
            told = {"happened": "It fell.", "state": "Down.", "next_step": "Lift it.", "evidence": {"n": 5}, "actor": "a test"}
            open_incident(cursor, name, title, **told)  # type: ignore[arg-type]

    for title in ("poison", "poison", "stuck"):
        fail(title)
    with control.transaction() as cursor:
        assert [one.title for one in read_open_incidents(cursor)] == ["poison", "stuck"]
        assert len(journal_of(cursor, name)) == 2
        close_incidents(cursor, name, ["stuck"], closed_by="somebody")
        assert [one.title for one in read_open_incidents(cursor)] == ["poison"]
        close_incidents(cursor, name, ["poison", "stuck"], closed_by="somebody")
        closed = [entry.detail["incident"] for entry in journal_of(cursor, name) if entry.event == "incident closed"]
        assert closed == ["stuck", "poison"]
        assert read_open_incidents(cursor) == []
    fail("poison")
    with control.transaction() as cursor:
        assert [one.title for one in read_open_incidents(cursor)] == ["poison"]


def test_one_act_on_a_stream_at_a_time(control: ControlDatabase, name: str) -> None:
    with control.lock(name):
        with pytest.raises(StreamBusy, match=f"Somebody else acts on {name}"), control.lock(name):
            pass
        with control.lock(f"{name}_other"):
            pass
    with control.lock(name):
        pass


def test_a_runbook_waits_for_the_lock(control: ControlDatabase, name: str) -> None:
    begun, done = threading.Event(), threading.Event()

    def act() -> None:
        with control.lock(name):
            begun.set()
            done.wait(10)

    other = threading.Thread(target=act)
    other.start()
    assert begun.wait(10)
    threading.Timer(0.5, done.set).start()
    with control.lock(name, wait_seconds=10):
        assert done.is_set()
    other.join()


def test_a_request_gets_one_launch_however_often_it_is_asked(control: ControlDatabase, name: str) -> None:
    request = f"restart_stream/{uuid.uuid4()}"
    assert find_launch(control, request) is None
    first, again = (
        write_launch(control, name, asked_by="a test", reason="a try", approvals={}, request=request) for _ in range(2)
    )
    assert (first.is_new, again.is_new) == (True, False)
    assert first.id == again.id == find_launch(control, request)
    others = [write_launch(control, name, asked_by="a test", reason="a try", approvals={}) for _ in range(2)]
    assert others[0].id != others[1].id, "without a request each is a launch of its own"


def test_supervision_that_has_been_silent_for_three_minutes_is_told(control: ControlDatabase) -> None:
    with control.transaction() as cursor:
        beat(cursor, "a run", "every stream is as it should be")
        assert (heartbeat := read_heartbeat(cursor)) is not None
        assert heartbeat.age_seconds < 5
    assert look_from_outside(control).is_well
    with control.transaction() as cursor:
        cursor.execute("UPDATE supervision SET seen_at = now() - interval '175 seconds'")
    assert look_from_outside(control, up_seconds=3600).is_well
    with control.transaction() as cursor:
        cursor.execute("UPDATE supervision SET seen_at = now() - interval '181 seconds'")
    silent = look_from_outside(control, up_seconds=3600)
    assert "SUPERVISION IS SILENT: it last looked 3 min ago" in silent.text
    assert not silent.is_well
    assert look_from_outside(control, up_seconds=60).is_well, "it is not blamed for the time before Airflow was up"
