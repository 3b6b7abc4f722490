"""Logs of drivers and of Airflow: old ones go, those that somebody may still write or look for stay."""

from datetime import timedelta
from pathlib import Path

from include.housekeeping.airflow_logs import sweep_airflow_logs
from include.housekeeping.driver_logs import sweep_driver_logs
from include.housekeeping.in_use import InUse
from tests.unit.housekeeping.trial import aged

WEEK = timedelta(days=7)
LIVING, ENDED = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
IN_USE = InUse({"orders": 9}, frozenset({("orders", 5)}), frozenset({LIVING}))


def files(root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}


def test_drivers_logs_go_with_their_generation(tmp_path: Path) -> None:
    gone = ["orders/g000003.log", "orders/g000003.log.1", f"orders/launch-{ENDED}.log", f"never_ran/launch-{ENDED}.log"]
    kept = [
        *("orders/g000005.log", "orders/g000005.log.1", f"orders/launch-{LIVING}.log"),  # their drivers may live
        *("orders/g000009.log", "orders/g000009.log.1", "orders/g000010.log"),  # the newest, and one that begins now
        *("never_ran/g000001.log", "orders/notes.txt", "stray.log"),
    ]
    for name in (*gone, *kept):
        aged(tmp_path / name, days=8)
    aged(tmp_path / "orders" / "g000004.log", days=6)
    assert sweep_driver_logs(tmp_path, IN_USE, WEEK, dry_run=True).removed == 4
    assert files(tmp_path) == {*gone, *kept, "orders/g000004.log"}
    swept = sweep_driver_logs(tmp_path, IN_USE, WEEK, dry_run=False)
    assert files(tmp_path) == {*kept, "orders/g000004.log"}
    assert swept.line(dry_run=False).startswith("driver logs: 4 removed (400 B); kept: 3 of ")


def test_airflows_logs_go_by_run_and_by_day(tmp_path: Path) -> None:
    """Drivers' logs may lie below the same folder; they have rules of their own."""
    run, day = "dag_id=supervise_streams/run_id={}/task_id=watch/attempt={}.log", "dag_processor/{}/dags-folder/x.py.log"
    gone = [run.format("a", 1), run.format("a", 2), day.format("2026-01-01")]
    kept = ["streams/orders/g000001.log", "streams/2026/x.log", "scheduler.log", "dag_id=x/note.txt"]
    for name in (*gone, *kept, run.format("b", 1)):
        aged(tmp_path / name, days=8)
    young = [run.format("b", 2), day.format("2026-01-02")]  # of run b one attempt is old, the other is not
    for name in young:
        aged(tmp_path / name, days=6)
    (tmp_path / "dag_processor" / "latest").symlink_to(tmp_path / "dag_processor" / "2026-01-02")
    before = files(tmp_path)
    assert sweep_airflow_logs(tmp_path, WEEK, dry_run=True).removed == 2
    assert files(tmp_path) == before
    swept = sweep_airflow_logs(tmp_path, WEEK, dry_run=False)
    assert before - files(tmp_path) == set(gone)
    assert swept.line(dry_run=False) == "log folders of runs and of days: 2 removed (300 B); kept: 2 younger than 7 days"
