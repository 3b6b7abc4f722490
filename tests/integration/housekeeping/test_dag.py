"""The DAG itself, in Airflow: it removes what is old and leaves its must-keep twin, and a dry run removes nothing."""

import uuid
from pathlib import Path

import pytest

from include.contract.identity import DRIVER_LOGS
from include.control.database import ControlDatabase
from include.control.journal import read_journal, write_journal
from include.local_stack.airflow import RunFailed
from include.local_stack.stack import Stack
from tests.integration.housekeeping.trial import Past, living_driver
from tests.unit.housekeeping.trial import aged, aged_checkpoint

KINDS = ("airflow_runs", "airflow_logs", "driver_logs", "checkpoints", "control_rows")
YEARS = 800  # beyond every retention of the environment file


class Ages:
    """One old thing of each kind, and its twin that must stay."""

    def __init__(self, stack: Stack) -> None:
        self.control = ControlDatabase(stack.postgres.connection("tidemark"))
        self.control.migrate()
        self.past = Past(self.control)
        self.living = self.past.launch(YEARS)  # generation 1
        self.past.launch(YEARS)
        self.past.launch(YEARS)
        name, home = self.past.stream, stack.home.folder
        runs, logs = home / "airflow" / "logs" / f"dag_id={name}", home.joinpath(*DRIVER_LOGS, name)
        checkpoints = home / "checkpoints" / name
        self.old = [
            aged_checkpoint(checkpoints / "c000002", YEARS),
            aged(logs / "g000002.log", YEARS),
            aged(runs / "run_id=old" / "task_id=x" / "attempt=1.log", YEARS),
        ]
        self.kept = [
            aged_checkpoint(checkpoints / "c000001", YEARS),
            aged_checkpoint(checkpoints / "c000003", YEARS),
            aged(logs / "g000001.log", YEARS),
            aged(logs / "g000003.log", YEARS),
            aged(runs / "run_id=new" / "task_id=x" / "attempt=1.log", 0),
        ]
        with self.control.transaction() as cursor:
            for event in ("old", "new"):
                write_journal(cursor, name, event, actor="a test")
            cursor.execute("UPDATE journal SET at = now() - interval '800 days' WHERE stream = %s AND event = 'old'", [name])

    def there(self) -> list[Path]:
        return [path for path in (*self.old, *self.kept) if path.exists()]

    def events(self) -> list[str]:
        with self.control.transaction() as cursor:
            entries = read_journal(cursor, self.past.stream, 50)
        return [entry.event for entry in entries if entry.stream == self.past.stream and entry.event != "launched"]


def run(stack: Stack, **conf: object) -> dict[str, str]:
    """The log of each task."""
    run_id = f"housekeeping-{uuid.uuid4().hex[:8]}"
    stack.api_server.run_dag("housekeeping", run_id, conf, 300)
    folder = stack.home.data("airflow") / "logs" / "dag_id=housekeeping" / f"run_id={run_id}"
    return {kind: (folder / f"task_id={kind}" / "attempt=1.log").read_text() for kind in KINDS}


def test_a_run_removes_what_is_old_and_a_dry_run_only_counts_it(stack: Stack) -> None:
    ages = Ages(stack)
    with living_driver(ages.living):
        said = run(stack, dry_run=True)
        assert ages.there() == [*ages.old, *ages.kept]
        assert ages.events() == ["old", "new"]
        assert [kind for kind, log in said.items() if "would be removed" not in log] == []
        said = run(stack)
        assert ages.there() == ages.kept
        assert ages.events() == ["new"]
    assert "checkpoint folders: " in said["checkpoints"]
    assert "of a driver that may live" in said["checkpoints"]
    assert "journal entries: " in said["control_rows"]
    assert "rows of Airflow's database" in said["airflow_runs"]
    password = str(stack.postgres.connection("airflow").password)
    assert [kind for kind, log in said.items() if password in log] == []


def test_a_misspelt_dry_run_removes_nothing(stack: Stack) -> None:
    ages = Ages(stack)
    with pytest.raises(RunFailed):
        run(stack, dryrun=True)
    assert ages.there() == [*ages.old, *ages.kept]
    assert ages.events() == ["old", "new"]
