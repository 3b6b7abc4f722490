"""A stream whose windows are reconciled in this process, and hands that harm its tables."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from include.contract.catalog import find_stream
from include.contract.environment import load_environment
from include.control.database import ControlDatabase
from include.control.incidents import Incident, read_open_incidents
from include.control.windows import Window
from include.local_stack.stack import Stack
from include.reconciliation.complete import CompleteThrough
from include.reconciliation.reconcile import Asked, Reconciliation
from jobs.measure_window import measure_run
from tests.streams import TrialStream


class Trial:
    def __init__(
        self,
        stack: Stack,
        spark: SparkSession,
        folder: Path,
        control: ControlDatabase,
        stream: TrialStream | None = None,
        **changes: Any,
    ) -> None:
        self.spark = spark
        self.control = control
        self.stream = stream or TrialStream(stack, folder, own_control=control, changes=changes)

    def deliver(self, count: int, **fates: int) -> None:
        self.stream.send(count, **fates)
        self.stream.run(self.spark)

    def reconcile(self, asked: Asked | None = None, **more: str) -> list[Window]:
        with self.stream.environment(**more):
            steps = self.steps()
            steps.choose(asked)
            steps.audit()
            measure_run(self.spark, steps.stream, steps.run)
            return steps.judge()

    def steps(self) -> Reconciliation:
        """Of a new run; inside the stream's environment."""
        return Reconciliation(self.control, load_environment(), find_stream(self.stream.name), f"run {uuid.uuid4()}")

    def judged(self, asked: Asked | None = None, **more: str) -> Window:
        (window,) = self.reconcile(asked, **more)
        return window

    def complete_through(self) -> CompleteThrough | None:
        with self.stream.environment():
            found = self.steps().publish()
        return found[0] if found else None

    def incidents(self) -> list[Incident]:
        with self.control.transaction() as cursor:
            return read_open_incidents(cursor)


Harm = Callable[[Trial], None]


def delete_row(trial: Trial) -> None:
    DeltaTable(trial.stream.table).delete("_partition = 1 AND _offset = 7")


def duplicate_row(trial: Trial) -> None:
    append(trial, lambda row: (row["_partition"], row["_offset"]) == (1, 7))


def copy_batch(trial: Trial) -> None:
    append(trial, lambda row: row["_partition"] == 1)


def append(trial: Trial, is_copied: Callable[[dict[str, Any]], bool]) -> None:
    there = DeltaTable(trial.stream.table).to_pyarrow_table()
    rows = there.filter(pa.array([is_copied(row) for row in there.to_pylist()]))
    assert rows.num_rows
    write_deltalake(trial.stream.table, rows, mode="append")


def change_value(trial: Trial) -> None:
    DeltaTable(trial.stream.table).update(new_values={"amount_cents": 1}, predicate="_partition = 1 AND _offset = 7")


def remove_file(trial: Trial) -> None:
    table = DeltaTable(trial.stream.table)
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    path = next(file["path"] for file in files if file["min._partition"] == file["max._partition"] == 1)
    (trial.stream.table / path).unlink()


def remove_quarantined(trial: Trial) -> None:
    DeltaTable(trial.stream.quarantine).delete("_partition = 1")


def edit_copied_ledger(trial: Trial) -> None:
    with trial.control.transaction() as cursor:
        cursor.execute("UPDATE ledger SET delivered = delivered + 1, read = read + 1 WHERE partition = 1")


def edit_log(trial: Trial) -> None:
    """One more read and delivered, in the commit itself."""
    newest = max((trial.stream.table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            note = json.loads(action["commitInfo"]["userMetadata"])
            line = next(line for line in note["ledger"] if line["partition"] == 1)
            line["read"], line["delivered"] = line["read"] + 1, line["delivered"] + 1
            action["commitInfo"]["userMetadata"] = json.dumps(note)
    newest.write_text("\n".join(json.dumps(action) for action in actions))
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)  # a careful forger


def move_tidemark(trial: Trial) -> None:
    """Over records that were sent and never delivered, by a note that is like ours."""
    trial.stream.send(30, partition=1)
    note = trial.stream.notes()[-1]
    moved = json.loads(json.dumps(note["tidemark"]))
    moved["batch"] += 1
    moved["offsets"]["1"] += 30
    forged = {**note, "from": note["tidemark"], "tidemark": moved, "ledger": []}
    empty = DeltaTable(trial.stream.table).to_pyarrow_table().slice(0, 0)
    told = CommitProperties(custom_metadata={"userMetadata": json.dumps(forged)})
    write_deltalake(trial.stream.table, empty, mode="append", commit_properties=told)
