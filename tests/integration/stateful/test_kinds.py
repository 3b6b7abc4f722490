"""What dedupe and windows make of records: each kind against plain arithmetic, and what is set aside with its reason (P6.4)."""

import json
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs import stateful_delivery
from jobs.failpoints import Failpoint, FailpointReached
from jobs.fates import SparkCountsDiffer
from jobs.spark_counts import SparkCounts, read_counts
from tests.outputs import OutputStream
from tests.payments import NOON, TIMED, WINDOWS, Event, send, totals, totals_there, windows_sink
from tests.streams import TrialStream, at, crash, once
from tests.warehouse import Warehouse

SLIDING = {
    **{"key": ["user_id"], "window": "5 minutes", "slide": "2 minutes", "event_time": "ts", "within": "10 minutes"},
    **{"sum": ["amount_cents"], "count": "payments", "min": ["amount_cents"], "max": ["amount_cents"], "avg": ["amount_cents"]},
}


def sliding(events: list[Event], closed_before: float) -> dict[tuple[str, datetime], list[int]]:
    """The values of each window of five minutes that begins every two, but for those that end at or before this minute."""
    found = defaultdict(list)
    for event in events:
        last = int(event.minute // 2 * 2)
        for start in (last, last - 2, last - 4):
            if start <= event.minute < start + 5 and start + 5 > closed_before:
                found[event.user, NOON + timedelta(minutes=start)].append(event.cents)
    return found


def test_sliding_windows_without_dedupe_leave_out_what_is_late_for_each_of_them(
    stack: Stack, warehouse: Warehouse, tmp_path: Path, spark: SparkSession
) -> None:
    """Every value of them; the last portion comes when the state is lost."""
    trial = TrialStream(stack, tmp_path)
    table = {"kind": "postgres_upsert", "connection": "warehouse", "table": trial.name, "key": ["user_id", "window_start"]}
    trial.write_file(select=TIMED["select"], reconcile=TIMED["reconcile"], aggregate=SLIDING, sinks={"windows": table})
    first = [Event(f"a{n}", f"u{n % 2}", n / 3, cents=n + 1, partition=n % 3) for n in range(90)]  # up to minute 29 2/3
    send(trial, first)
    trial.run(spark)
    watermark = 89 / 3 - 10
    second = [Event("in some", "u0", 17.5, cents=11), Event("late", "u0", 10, cents=7), Event("in time", "u1", 25, cents=13)]
    for portion in (second[:1], second[1:]):  # in a batch of its own, the first is late for no window that the ledger counts
        send(trial, portion)
        trial.run(spark)
        shutil.rmtree(trial.checkpoints)
    expected = sliding(first, 0)
    for place, cents in sliding(second, watermark).items():
        expected[place] += cents
    there = {(row["user_id"], row["window_start"]): row for row in warehouse.rows(trial.name)}
    assert {place: _values(row) for place, row in there.items()} == {
        place: (sum(cents), len(cents), min(cents), max(cents), sum(cents) / len(cents)) for place, cents in expected.items()
    }
    (booked,) = [row["late"] for row in _ledger(trial, warehouse) if row.get("late")]
    assert booked == 1  # `in some` is late for some of its windows, and is delivered to the others


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("amount_cents", "payments", "amount_cents_min", "amount_cents_max", "amount_cents_avg"))


def _ledger(trial: TrialStream, warehouse: Warehouse) -> list[dict[str, Any]]:
    notes = warehouse.ask("SELECT note FROM tidemark.sink_commit WHERE target = %s", f"public.{trial.name}")
    return [line for note in notes for line in json.loads(note["note"]).get("ledger", [])]


def test_what_a_stateful_stream_cannot_take_is_set_aside_with_its_reason(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    trial = TrialStream(stack, tmp_path)
    by_note = {"key": ["note"], "event_time": "ts", "within": "10 minutes"}
    sinks = {"lake": {"kind": "delta_append", "table": trial.name}}
    trial.write_file(**{**TIMED, "dedupe": by_note, "sinks": sinks}, late="quarantine")
    producer = trial.producer()

    def produce(name: str, ts: str, note: str | None) -> None:
        value = {"event_id": name, "user_id": "u", "amount": 1, "ts": ts, "note": note}
        producer.produce(trial.name, json.dumps(value).encode(), partition=0)

    produce("good", "2026-01-01T12:00:00Z", "n1")
    produce("twice", "2026-01-01T12:01:00Z", "n1")
    produce("no key", "2026-01-01T12:00:00Z", None)
    produce("from the future", "2999-01-01T00:00:00Z", "n2")
    producer.produce(trial.name, b"{not json", partition=0)
    producer.flush(30)
    trial.run(spark)
    produce("late", "2026-01-01T11:00:00Z", "n3")
    produce("in time", "2026-01-01T11:55:00Z", "n4")
    producer.flush(30)
    trial.run(spark)
    assert Counter(row["event_id"] for row in trial.rows()) == {"good": 1, "in time": 1}
    kept = DeltaTable(trial.quarantine).to_pyarrow_table().to_pylist()
    assert Counter(row["_reason"] for row in kept) == {"no_value": 1, "ahead": 1, "not_json": 1, "late": 1}
    booked = Counter[str]()
    for note in trial.notes():
        for line in note.get("ledger", []):
            booked.update({name: line.get(name, 0) for name in ("read", "delivered", "quarantined", "duplicates", "late")})
    assert booked == {"read": 7, "delivered": 2, "quarantined": 4, "duplicates": 1, "late": 0}


def test_a_partition_that_is_idle_does_not_hold_the_watermark_back(stack: Stack, tmp_path: Path, spark: SparkSession) -> None:
    """The newest event time of any partition moves it."""
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, aggregate={**WINDOWS, "emit": "final"}, sinks=windows_sink(trial.name))
    events = [Event(f"a{n}", "u", n, partition=0) for n in range(31)]
    send(trial, events)
    trial.run(spark)
    assert totals_there(trial, spark) == {place: value for place, value in totals(events).items() if place[1].minute + 5 <= 20}


def test_a_topic_gets_each_id_once_though_a_driver_dies_before_it_tells_and_the_state_is_lost(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    trial = OutputStream(stack, tmp_path, more={"slots": 1})
    trial.write_file(**TIMED)
    first = [Event(f"a{n}", f"u{n % 3}", n / 4, partition=n % 3) for n in range(60)]
    send(trial, first)
    trial.run(spark)
    second = [Event(f"b{n}", "u0", 15 + n / 4, partition=n % 3) for n in range(20)]
    send(trial, [*second, *(replace(event, partition=(event.partition + 1) % 3) for event in first[30:])])
    with at(Failpoint.BEFORE_TELLING, once(crash)), pytest.raises(FailpointReached):
        trial.run(spark)
    shutil.rmtree(trial.checkpoints)
    send(trial, [replace(event, partition=(event.partition + 2) % 3) for event in (*first[30:], *second)])
    trial.run(spark)
    sent = Counter(output.row["event_id"] for output in trial.outputs())
    assert sent == Counter(dict.fromkeys((event.id for event in (*first, *second)), 1))


@pytest.mark.thorough("late")
@pytest.mark.parametrize("what", ["late", "duplicates"])
def test_nothing_is_written_of_a_batch_that_spark_counts_otherwise(
    stack: Stack, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    first, second = [Event("a", "u", 1), Event("a", "u", 1)], [Event("b", "u", 2)]
    send(trial, first)
    trial.run(spark)
    send(trial, second)

    def one_more(*given: Any) -> SparkCounts:
        counts = read_counts(*given)
        return replace(counts, **{what: getattr(counts, what) + 1})

    monkeypatch.setattr(stateful_delivery, "read_counts", one_more)
    with pytest.raises(SparkCountsDiffer, match=rf"0 {what} were counted from Kafka, but .* 1\."):
        trial.run(spark)
    monkeypatch.undo()
    assert totals_there(trial, spark) == totals(first)
    trial.run(spark)
    assert totals_there(trial, spark) == totals([*first, *second])


def test_a_burst_of_late_records_that_are_quarantined_is_no_reason_to_end(
    stack: Stack, tmp_path: Path, spark: SparkSession
) -> None:
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED, late="quarantine", sinks={"lake": {"kind": "delta_append", "table": trial.name}})
    send(trial, [Event("a", "u", 60)])
    trial.run(spark)
    send(trial, [Event(f"late{n}", "u", 0, partition=n % 3, late=True) for n in range(200)])
    trial.run(spark)
    kept = DeltaTable(trial.quarantine).to_pyarrow_table().to_pylist()
    assert Counter(row["_reason"] for row in kept) == {"late": 200}
    assert kept[0]["_detail"] == "2026-01-01 12:00:00 is not after the watermark, 2026-01-01T12:50:00.000Z"
