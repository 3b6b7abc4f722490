"""Removes rows of the control database that have served their time, in chunks, each in a short transaction of its own."""

from collections.abc import Iterator
from datetime import timedelta

from include.contract.environment import Retentions
from include.control.database import ControlDatabase
from include.control.drivers import NEWEST
from include.control.expiry import (
    INCIDENTS,
    JOURNAL,
    LAUNCHES,
    PROGRESS,
    STOP_REQUESTS,
    Expiring,
    count_expired,
    remove_expired,
)
from include.housekeeping.swept import Swept, days

NEVER_REMOVED = "ledger (whether a sink is new, and the books), spec (levelling), and one row per stream or sink: all kept"


def sweep_control_rows(control: ControlDatabase, keep: Retentions, *, dry_run: bool) -> Iterator[Swept]:
    newest = f"the newest {NEWEST} of each stream"
    yield _sweep(control, "progress rows", PROGRESS, keep.progress, dry_run, newest)
    yield _sweep(control, "stop requests", STOP_REQUESTS, keep.launches, dry_run, "those of newest generations")
    described = "launches with generations, processes and exits"
    yield _sweep(control, described, LAUNCHES, keep.launches, dry_run, newest, "newest generations", "those of runbooks")
    yield _sweep(control, "incidents", INCIDENTS, keep.incidents, dry_run, "all open ones")
    yield _sweep(control, "journal entries", JOURNAL, keep.journal, dry_run)


def _sweep(control: ControlDatabase, what: str, rows: Expiring, age: timedelta, dry_run: bool, *kept: str) -> Swept:
    removed = _count(control, rows, age) if dry_run else sum(_chunks(control, rows, age))
    return Swept(what, removed, (f"all of the last {days(age)}", *kept))


def _count(control: ControlDatabase, rows: Expiring, age: timedelta) -> int:
    with control.transaction() as cursor:
        return count_expired(cursor, rows, age)


def _chunks(control: ControlDatabase, rows: Expiring, age: timedelta) -> Iterator[int]:
    count = rows.chunk
    while count == rows.chunk:
        with control.transaction() as cursor:
            count = remove_expired(cursor, rows, age)
        yield count
