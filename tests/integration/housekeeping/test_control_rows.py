"""The control database forgets what nobody asks any more, and nothing that somebody does."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from include.contract.environment import Retentions
from include.control.database import ControlDatabase
from include.control.drivers import NEWEST, read_batches, read_ends, read_open_launches
from include.control.expiry import LAUNCHES, PROGRESS, remove_expired
from include.control.generations import find_launch, knows_sink, take_generation, write_launch
from include.control.journal import read_journal, write_journal
from include.control.progress import FinishedBatch, is_stop_requested, record_batches
from include.housekeeping.control_rows import sweep_control_rows
from include.housekeeping.in_use import read_in_use
from tests.integration.housekeeping.trial import Past, living_driver

KEEP = Retentions(**dict.fromkeys(Retentions.model_fields, "300 days"))
OLD, YOUNG = 301, 299


@pytest.fixture
def past(own_control: ControlDatabase) -> Past:
    return Past(own_control)


def sweep(past: Past, *, dry_run: bool = False) -> dict[str, int]:
    return {swept.what: swept.removed for swept in sweep_control_rows(past.control, KEEP, dry_run=dry_run)}


def test_old_launches_go_with_all_that_hangs_on_them_and_the_next_number_is_still_one_more(past: Past) -> None:
    old = [past.launch(OLD) for _ in range(3)]
    past.launch(OLD, request=f"{past.stream}/run")
    silent = past.launch(OLD, ended=False)
    newest = [past.launch(YOUNG if place else OLD) for place in range(NEWEST)]
    assert sweep(past, dry_run=True)["launches with generations, processes and exits"] == 4
    assert len(past.column("SELECT id FROM launch WHERE stream = %(stream)s")) == NEWEST + 5
    assert sweep(past)["launches with generations, processes and exits"] == 4
    for table in ("generation", "driver_exit", "driver_process"):
        left = past.column(f"SELECT launch::text FROM {table}")  # noqa: S608
        assert set(newest) <= set(left)
        assert not {*old, silent} & set(left)
    assert find_launch(past.control, f"{past.stream}/run") is not None
    launch = write_launch(past.control, past.stream, asked_by="a test", reason="x", approvals={}).id
    assert take_generation(past.control, past.stream, launch, "hash", 0).number == NEWEST + 6


def test_a_launch_is_as_old_as_its_last_word_and_the_newest_generation_stays_whatever_its_age(past: Past) -> None:
    heard, ended, gone = past.launch(OLD, ended=False), past.launch(OLD), past.launch(OLD)
    past.execute("UPDATE driver_process SET seen_at = now() WHERE launch = %(launch)s", launch=heard)
    between = timedelta(days=(OLD + YOUNG) / 2 - 0.5)
    past.execute("UPDATE driver_exit SET ended_at = now() - %(age)s WHERE launch = %(launch)s", launch=ended, age=between)
    for _ in range(NEWEST):
        past.launch(YOUNG)
    newest = past.launch(OLD)
    sweep(past)
    left = set(past.column("SELECT id::text FROM launch WHERE stream = %(stream)s"))
    assert {newest, heard, ended} <= left
    assert gone not in left
    assert past.column("SELECT max(number) FROM generation WHERE stream = %(stream)s") == [NEWEST + 4]


def test_what_supervision_looks_at_is_the_same_before_and_after(past: Past) -> None:
    for _ in range(NEWEST + 5):
        past.launch(OLD)
    for _ in range(3):
        past.launch(OLD, ended=False)
    _add_batches(past, generation=1, count=10, days=OLD)
    _add_batches(past, generation=2, count=50, days=OLD)
    seen = _seen(past)
    assert sweep(past)["progress rows"] == 10 + 50 - NEWEST
    assert _seen(past) == seen
    assert len(past.column("SELECT batch FROM progress WHERE stream = %(stream)s")) == NEWEST


def _seen(past: Past) -> list[object]:
    with past.control.transaction() as cursor:
        return [read_open_launches(cursor, past.stream), read_ends(cursor, past.stream), read_batches(cursor, past.stream)]


def _add_batches(past: Past, generation: int, count: int, days: float) -> None:
    at = datetime.now(UTC) - timedelta(days=days)
    with past.control.transaction() as cursor:
        record_batches(cursor, past.stream, generation, [FinishedBatch(batch, 1, 0.1, 0, at) for batch in range(count)])


def test_young_progress_stays(past: Past) -> None:
    past.launch(YOUNG)
    _add_batches(past, generation=1, count=50, days=YOUNG)
    sweep(past)
    assert len(past.column("SELECT batch FROM progress WHERE stream = %(stream)s")) == 50


def test_stop_requests_go_when_a_newer_generation_is_there(past: Past) -> None:
    for _ in range(3):
        past.launch(YOUNG)
    past.execute(
        "INSERT INTO stop_request (stream, generation, asked_by, reason, asked_at) VALUES"
        " (%(stream)s, 1, 'x', 'x', now() - %(old)s), (%(stream)s, 2, 'x', 'x', now() - %(young)s),"
        " (%(stream)s, 3, 'x', 'x', now() - %(old)s)",
        old=timedelta(days=OLD),
        young=timedelta(days=YOUNG),
    )
    assert sweep(past)["stop requests"] == 1
    with past.control.transaction() as cursor:
        assert [is_stop_requested(cursor, past.stream, number) for number in (1, 2, 3)] == [False, True, True]


def test_incidents_go_when_they_were_closed_long_ago(past: Past) -> None:
    past.execute(
        "INSERT INTO incident (stream, class, happened, state, next_step, evidence, opened_at, closed_at) VALUES"
        " (%(stream)s, 'closed', '', '', '', '{}', now() - %(old)s, now() - %(old)s),"
        " (%(stream)s, 'just closed', '', '', '', '{}', now() - %(old)s, now()),"
        " (%(stream)s, 'open', '', '', '', '{}', now() - %(old)s, NULL)",
        old=timedelta(days=OLD),
    )
    assert sweep(past)["incidents"] == 1
    assert past.column("SELECT class FROM incident WHERE stream = %(stream)s ORDER BY id") == ["just closed", "open"]


def test_journal_entries_go_by_age_and_ledger_and_spec_never(past: Past) -> None:
    with past.control.transaction() as cursor:
        for event in ("old", "young"):
            write_journal(cursor, past.stream, event, actor="a test")
    past.execute(
        "UPDATE journal SET at = now() - %(old)s WHERE stream = %(stream)s AND event = 'old';"
        "INSERT INTO ledger VALUES (%(stream)s, 'lake', 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 'hash', 1, 1);"
        "INSERT INTO spec VALUES (%(stream)s, 'hash', 'snapshot', now() - %(old)s)",
        old=timedelta(days=OLD),
    )
    assert sweep(past)["journal entries"] == 1
    with past.control.transaction() as cursor:
        there = [entry.event for entry in read_journal(cursor, past.stream, 50) if entry.stream == past.stream]
        assert [event for event in there if event != "launched"] == ["young"]
    assert knows_sink(past.control, past.stream, "lake")
    assert past.column("SELECT snapshot FROM spec WHERE stream = %(stream)s") == ["snapshot"]


def test_rows_go_in_chunks_and_a_run_beside_another_leaves_it_its_own(past: Past) -> None:
    past.launch(YOUNG)
    _add_batches(past, generation=1, count=100 + NEWEST, days=OLD)
    age, in_chunks = timedelta(days=300), replace(PROGRESS, chunk=60)
    with past.control.transaction() as held:
        assert remove_expired(held, in_chunks, age) == 60  # not committed yet
        with past.control.transaction() as other:
            assert remove_expired(other, in_chunks, age) == 40
    assert len(past.column("SELECT batch FROM progress WHERE stream = %(stream)s")) == NEWEST


def test_launches_removed_by_several_at_once_are_removed_once(past: Past) -> None:
    for _ in range(60 + NEWEST):
        past.launch(OLD)
    removed: list[int] = []

    def remove() -> None:
        for _ in range(20):
            with past.control.transaction() as cursor:
                removed.append(remove_expired(cursor, replace(LAUNCHES, chunk=7), timedelta(days=300)))

    threads = [threading.Thread(target=remove) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(removed) == 60
    assert len(past.column("SELECT number FROM generation WHERE stream = %(stream)s")) == NEWEST


def test_who_may_live_is_known_by_process_and_by_word(past: Past) -> None:
    alive, over, silent = past.launch(OLD), past.launch(OLD), past.launch(OLD, ended=False)
    heard, just_ended = past.launch(YOUNG, ended=False), past.launch(YOUNG)
    past.launch(OLD)
    with living_driver(alive):
        in_use = read_in_use(past.control, timedelta(days=300))
        numbers = {number for stream, number in in_use.generations if stream == past.stream}
        assert (numbers, in_use.newest[past.stream]) == ({1, 4}, 6)
        assert {alive, heard} <= in_use.launches
        assert not {over, silent, just_ended} & in_use.launches
    ended = read_in_use(past.control, timedelta(days=300))
    assert {number for stream, number in ended.generations if stream == past.stream} == {4}
