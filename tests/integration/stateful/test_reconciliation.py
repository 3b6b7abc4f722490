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


def into_database(kind: str, key: list[str], **more: str) -> Callable[[str], dict[str, Any]]:
    return lambda name: {"rows": {"kind": kind, "connection": WAREHOUSE, "table": name, "key": key, **more}}


def newest_of_user(name: str) -> dict[str, Any]:
    return {"lake": {"kind": "delta_merge", "table": name, "key": ["user_id"], "order": "ts"}}


def into_topic(name: str) -> dict[str, Any]:
    topic = {"topic": f"{name}_out", "create": {"partitions": 2}, "slots": 1}
    return {"out": {"kind": "kafka", "connection": "kafka_main", "key": "user_id", **topic}}


NEW_ROWS = "new rows in PostgreSQL"
KINDS: dict[str, dict[str, Any]] = {
    "rows": {},
    "totals": {"sinks": into_totals},
    "windows": {"aggregate": WINDOWS, "sinks": windows_sink},
    "windows in PostgreSQL": {
        "aggregate": {**WINDOWS, "avg": ["amount_cents"], "max": ["ts"]},
        "sinks": into_database("postgres_upsert", ["user_id", "window_start"]),
    },
    "newest rows": {"sinks": newest_of_user},
    "newest rows in PostgreSQL": {"sinks": into_database("postgres_upsert", ["user_id"], order="ts")},
    NEW_ROWS: {"sinks": into_database("postgres_insert_new", ["event_id"])},
    "outputs": {"sinks": into_topic},
}


@pytest.mark.thorough("totals", "windows", "newest rows in PostgreSQL", NEW_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_and_late_records_are_no_losses(kind: str, make: MakeTrial) -> None:
    """In one window, in the next one, and of a copy that came in the window before."""
    trial = make(**KINDS[kind])
    deliver(trial, FIRST)
    first = trial.judged()
    deliver(trial, SECOND)
    deliver(trial, THIRD)
    second = trial.judged()
    for window, late in ((first, 0), (second, 2)):
        assert window.verdict is Verdict.PASSED, window.told
        assert (booked(window, "duplicates"), booked(window, "late")) == (2, late)
        assert counted(window) == (None if kind == NEW_ROWS else 2, late)  # which counts duplicates of its own among them
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


def send_copy(trial: Trial) -> None:
    """An output of a duplicate, among those of a batch."""
    producer = trial.stream.producer()
    source = {name.removeprefix("_"): number for name, number in COPY.items()}
    producer.produce(
        f"{trial.stream.name}_out", b"{}", headers=[("tidemark-source", "1/{partition}/{offset}/0".format(**source))]
    )
    assert producer.flush(10) == 0
    deliver(trial, [Event("n3", "u0", 32)])


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
    "window in PostgreSQL changed": (
        *("windows in PostgreSQL", sql("UPDATE {} SET payments = 3 WHERE window_start = '2026-01-01 12:30:00+00'")),
        CHANGED.replace("12:30:00", r"12:30:00\+00:00"),
    ),
    "window in PostgreSQL removed": (
        *("windows in PostgreSQL", sql("DELETE FROM {} WHERE user_id = 'u1'")),
        r"the window of user_id u1, window_start 2026-01-01 12:00:00\+00:00 is lost",
    ),
    "window in PostgreSQL of another": (
        *("windows in PostgreSQL", sql("UPDATE {} SET user_id = 'u7' WHERE user_id = 'u1'")),
        r"the window of user_id u7, .* is in the table but not in Kafka",
    ),
    "window in PostgreSQL of a stranger": (
        "windows in PostgreSQL",
        sql(
            "INSERT INTO {} (user_id, window_start, window_end) VALUES ('u8', '2026-01-01 12:30:00+00', '2026-01-01 12:35:00+00')"
        ),
        r"the window of user_id u8, .* is in the table but not in Kafka",
    ),
    "newest row removed": ("newest rows", by_spark(lambda table: table.delete("user_id = 'u0'")), r"1 lost in partition 0"),
    "copy as the newest row": (
        "newest rows",
        by_spark(lambda table: table.update("user_id = 'u0'", {name: F.lit(value) for name, value in COPY.items()})),
        r"1 delivered twice, as copies of others, in partition 2: offset 35",
    ),
    "newest row in PostgreSQL removed": (
        *("newest rows in PostgreSQL", sql("DELETE FROM {} WHERE user_id = 'u0'")),
        r"1 lost in partition 0: offset 35 \(user_id u0, event_id n2\)",
    ),
    "new row in PostgreSQL removed": (
        *(NEW_ROWS, sql("DELETE FROM {} WHERE event_id = 'n1'")),
        r"1 lost in partition 0: offset 34 \(event_id n1\)",
    ),
    "output of a copy": (
        *("outputs", send_copy),
        r"1 delivered twice, as copies of others, in partition 2: offset 35 \(event_id n1\)",
    ),
    "window changed": ("windows", by_spark(lambda table: table.update(HALF_PAST, {"payments": F.lit(3)})), CHANGED),
    "window removed": ("windows", by_spark(lambda table: table.delete(HALF_PAST)), r"user_id u0, .* 12:30:00 is lost"),
    "window added": ("windows", invent_window, r"user_id u7, .* 12:30:00 is in the table but not in Kafka"),
}


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "another window": ("windows", {"aggregate": {**WINDOWS, "window": "10 minutes"}, "sinks": windows_sink}),
    "dedupe taken out": ("rows", {"dedupe": None}),
}


@pytest.mark.thorough("dedupe taken out")
@pytest.mark.parametrize("change", CHANGES)
def test_a_window_is_judged_by_the_file_by_which_it_was_delivered(change: str, make: MakeTrial) -> None:
    """A file that changes beside a running driver applies at its next start."""
    kind, changes = CHANGES[change]
    trial = make(**KINDS[kind])
    deliver_all(trial)
    sinks = changes.pop("sinks", None)
    trial.stream.write_file(**TIMED | changes, **({"sinks": sinks(trial.stream.name)} if sinks else {}))
    window = trial.judged()
    assert window.verdict is Verdict.PASSED, window.told
    assert counted(window)[1] == 2


@pytest.mark.thorough
def test_late_records_are_judged_by_the_policy_of_their_time(make: MakeTrial) -> None:
    """Two files in one window, which differ in nothing else that a state is made by."""
    trial = make(**KINDS["windows"], late="quarantine")
    for events in (FIRST, SECOND):
        deliver(trial, events)
    deliver(trial, [Event("y", "u1", 1, partition=1, late=True)])
    trial.stream.write_file(**TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.stream.name))
    deliver(trial, THIRD)
    window = trial.judged()
    assert window.verdict is Verdict.PASSED, window.told
    assert (booked(window, "quarantined"), booked(window, "late")) == (1, 2)


@pytest.mark.thorough
def test_duplicates_are_not_compared_where_outputs_are_not_judged(make: MakeTrial) -> None:
    trial = make(**KINDS["outputs"])
    deliver_all(trial)
    trial.stream.configure(f"{trial.stream.name}_out", cleanup_policy="compact")
    window = trial.judged()
    assert window.verdict is Verdict.NOT_JUDGED, window.told


@pytest.mark.thorough(
    *("row with copies deleted", "row duplicated", "copy appended", "total removed", "window removed", "window added"),
    *("window in PostgreSQL removed", "window in PostgreSQL of another", "newest row removed", "copy as the newest row"),
    *("newest row in PostgreSQL removed", "new row in PostgreSQL removed", "window changed"),
    "window in PostgreSQL changed",
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
