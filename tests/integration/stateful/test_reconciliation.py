"""Stateful streams are judged by what Kafka has: duplicates and late records are no losses, and whatever is done to a table is
found and named (P7).
"""

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable as SparkTable
from deltalake import DeltaTable, write_deltalake
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from include.control.database import ControlDatabase
from include.control.windows import Verdict, Window
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack
from tests.integration.reconciliation.trial import Trial
from tests.payments import TIMED, WINDOWS, Event, send, windows_sink
from tests.streams import TrialStream

TOTALS = {"key": ["user_id"], "sum": ["amount_cents"], "count": "payments"}
FIRST = [
    *(Event(f"e{number}", f"u{number % 3}", number / 10, partition=number % 3) for number in range(100)),
    Event("e5", "u2", 0.5, partition=1),
    Event("e50", "u2", 5, partition=2),
]
SECOND = [Event("e99", "u0", 9.9, partition=2), Event("n1", "u0", 30, partition=0)]  # the first is a copy across batches
THIRD = [
    Event("n1", "u0", 30, partition=2),
    Event("e99", "u0", 9.9, partition=1, late=True),
    Event("x", "u1", 1, partition=1, late=True),
    Event("n2", "u0", 31, partition=0),
]
Harm = Callable[[Trial], None]
MakeTrial = Callable[..., Trial]


@pytest.fixture
def make(stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path) -> MakeTrial:
    def made(**file: Any) -> Trial:
        stream = TrialStream(stack, tmp_path, own_control=own_control)
        sinks = file.pop("sinks", None)
        stream.write_file(**TIMED, **file, **({"sinks": sinks(stream.name)} if sinks else {}))
        return Trial(stack, spark, tmp_path, own_control, stream)

    return made


def deliver(trial: Trial, events: list[Event]) -> None:
    send(trial.stream, events)
    trial.stream.run(trial.spark)


def deliver_all(trial: Trial) -> None:
    for events in (FIRST, SECOND, THIRD):
        deliver(trial, events)


def booked(window: Window, name: str) -> int:
    assert window.audited is not None
    return sum(getattr(one, name) for one in window.audited.booked.values())


def counted(window: Window) -> tuple[int | None, int]:
    """Duplicates and late records, as they were counted again."""
    assert window.measured is not None
    return window.measured.duplicates, sum(one.kafka_late for one in window.measured.counted.values())


def into_totals(name: str) -> dict[str, Any]:
    return {"sums": {"kind": "postgres_totals", "connection": WAREHOUSE, "table": name, **TOTALS}}


KINDS: dict[str, dict[str, Any]] = {
    "rows": {},
    "totals": {"sinks": into_totals},
    "windows": {"aggregate": WINDOWS, "sinks": windows_sink},
}


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_and_late_records_are_no_losses(kind: str, make: MakeTrial) -> None:
    """In one window, in the next one, and of a copy that came in the window before."""
    trial = make(**KINDS[kind])
    deliver(trial, FIRST)
    first = trial.judged()
    assert (first.verdict, counted(first)) == (Verdict.PASSED, (2, 0)), first.told
    deliver(trial, SECOND)
    deliver(trial, THIRD)
    second = trial.judged()
    assert (second.verdict, counted(second)) == (Verdict.PASSED, (2, 2)), second.told
    assert (booked(second, "duplicates"), booked(second, "late")) == counted(second)
    assert trial.incidents() == []


def delete(where: str) -> Harm:
    return lambda trial: _delete(trial, where)


def _delete(trial: Trial, where: str) -> None:
    DeltaTable(trial.stream.table).delete(where)


def append(where: Callable[[dict[str, Any]], bool], **changes: Any) -> Harm:
    def act(trial: Trial) -> None:
        there = DeltaTable(trial.stream.table).to_pyarrow_table()
        rows = [row | changes for row in there.to_pylist() if where(row)]
        assert rows
        write_deltalake(trial.stream.table, pa.Table.from_pylist(rows, there.schema), mode="append")

    return act


def sql(text: str) -> Harm:
    def act(trial: Trial) -> None:
        with closing(trial.stream.stack.postgres.connect("warehouse")) as connection, connection.cursor() as cursor:
            cursor.execute(SQL(text).format(Identifier(trial.stream.name)))
            connection.commit()

    return act


def by_spark(act: Callable[[SparkTable], object]) -> Harm:
    """A merged table has deletion vectors, which only Spark writes."""
    return lambda trial: act(SparkTable.forPath(trial.spark, str(trial.stream.table))) and None


def invent_window(trial: Trial) -> None:
    there = trial.spark.read.format("delta").load(str(trial.stream.table)).where(HALF_PAST)
    there.withColumn("user_id", F.lit("u7")).write.format("delta").mode("append").save(str(trial.stream.table))


HALF_PAST = "window_start = TIMESTAMP '2026-01-01 12:30:00'"
COPY = {"_partition": 2, "_offset": 35}  # of n1, that of the third portion
CHANGED = (
    r"the window of user_id u0, window_start 2026-01-01 12:30:00 has changed since it was delivered: payments is 3, but 2 by"
)
FAULTS: dict[str, tuple[str, Harm, str]] = {
    "row without copies deleted": ("rows", delete("event_id = 'n2'"), r"1 lost in partition 0: offset 35 \(event_id n2\)"),
    "row with copies deleted": ("rows", delete("event_id = 'n1'"), r"1 lost in partition 0: offset 34 \(event_id n1\)"),
    "row duplicated": ("rows", append(lambda row: row["event_id"] == "n2"), r"1 delivered twice in partition 0: offset 35"),
    "copy appended": (
        *("rows", append(lambda row: row["event_id"] == "n1", **COPY)),
        r"1 delivered twice, as copies of others, in partition 2: offset 35 \(event_id n1\)",
    ),
    "total changed": (
        *("totals", sql("UPDATE {} SET payments = payments + 1 WHERE user_id = 'u0'")),
        r"the totals of user_id u0 differ: payments is 37, but 36 by Kafka's records",
    ),
    "total removed": ("totals", sql("DELETE FROM {} WHERE user_id = 'u0'"), r"the totals of user_id u0 are lost"),
    "window changed": ("windows", by_spark(lambda table: table.update(HALF_PAST, {"payments": F.lit(3)})), CHANGED),
    "window removed": ("windows", by_spark(lambda table: table.delete(HALF_PAST)), r"user_id u0, .* 12:30:00 is lost"),
    "window added": ("windows", invent_window, r"user_id u7, .* 12:30:00 is in the table but not in Kafka"),
}


@pytest.mark.thorough(
    "row with copies deleted", "row duplicated", "copy appended", "total removed", "window removed", "window added"
)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_named(fault: str, make: MakeTrial) -> None:
    kind, harm, named = FAULTS[fault]
    trial = make(**KINDS[kind])
    deliver_all(trial)
    harm(trial)
    window = trial.judged()
    assert window.verdict is Verdict.FAILED, window.told
    assert re.search(named, window.told or ""), window.told
