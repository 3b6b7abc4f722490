"""One sink of several that is down or taken over is named; the others keep what they have, and the rest is delivered later."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.stack import Stack
from jobs.exits import ended_by
from jobs.failpoints import Failpoint, FailpointReached
from jobs.sink import Fenced
from tests.relay import Relay
from tests.streams import at, crash, once
from tests.warehouse import KINDS, Warehouse, WarehouseStream


@pytest.fixture
def relay(stack: Stack) -> Iterator[Relay]:
    relay = Relay(stack.postgres.connection(WAREHOUSE).port or 0)
    yield relay
    relay.close()


@pytest.fixture
def stream(stack: Stack, tmp_path: Path) -> WarehouseStream:
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals")
    with_sinks(stream, "lake", "rows")
    return stream


def with_sinks(stream: WarehouseStream, *names: str, begin: str | None = None, **changes: Any) -> None:
    key = {"from": begin} if begin else {}
    sinks = {
        "also": {"kind": "delta_append", "table": f"{stream.name}_also"},
        "lake": {"kind": "delta_append", "table": stream.name},
        "rows": {"kind": stream.kind, "connection": WAREHOUSE, "table": stream.name, **KINDS[stream.kind], **key},
    }
    stream.write_file(sinks={name: sinks[name] for name in names}, source__max_records_per_batch=1000, **changes)


def through(stream: WarehouseStream, relay: Relay) -> dict[str, str]:
    there = json.loads(stream.variables()["AIRFLOW_CONN_WAREHOUSE"])
    return {"AIRFLOW_CONN_WAREHOUSE": json.dumps(there | {"port": relay.port})}


def second(act: Any) -> Any:
    """Rows are written to the database first, then to the lake; the commits come in the order of names, the lake first."""
    times = iter(range(1, 1_000))
    return lambda: act() if next(times) == 2 else None


def in_the_lake(stream: WarehouseStream, suffix: str = "") -> list[tuple[int, int]]:
    return sorted((row["_partition"], row["_offset"]) for row in stream.rows(suffix))


def recorded_end(stack: Stack, stream: WarehouseStream) -> tuple[str, dict[str, Any]]:
    """What supervision opens its incident with."""
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        cursor.execute(
            "SELECT happened, evidence FROM driver_exit WHERE stream = %s ORDER BY ended_at DESC LIMIT 1", [stream.name]
        )
        happened, evidence = cursor.fetchone() or ("", {})
    return happened, evidence


@pytest.mark.thorough("sink.before_write", "take_over.after_fence")
@pytest.mark.parametrize(
    "point",
    [None, Failpoint.AFTER_FENCE, Failpoint.BEFORE_WRITE, Failpoint.BEFORE_COMMIT],
    ids=lambda point: str(point or "before"),
)
def test_a_database_that_is_down_is_named_and_the_other_sink_keeps_what_it_has(
    point: Failpoint | None, stream: WarehouseStream, stack: Stack, spark: SparkSession, warehouse: Warehouse, relay: Relay
) -> None:
    """Before the start, in its take-over, beside the writing of the lake, and between the two commits."""
    wire = through(stream, relay)
    stream.send_orders(100)
    stream.run(spark, **wire)
    stream.send_orders(100)
    is_in_batch = point in (Failpoint.BEFORE_WRITE, Failpoint.BEFORE_COMMIT)
    if point is None:
        relay.cut()
    with (
        at(point or Failpoint.AFTER_ADOPTION, second(relay.cut) if is_in_batch else relay.cut),
        pytest.raises(Exception, match=f"Sink {stream.name}.rows, connection {WAREHOUSE}: ") as ended,
    ):
        stream.run(spark, **wire)
    told = ended_by(ended.value)
    assert told.exit_class is ExitClass.INFRASTRUCTURE
    assert (told.evidence["sink"], told.evidence["connection"]) == ("rows", WAREHOUSE)
    assert "Every other sink holds what it has committed." in told.state
    happened, evidence = recorded_end(stack, stream)
    assert f"Sink {stream.name}.rows, connection {WAREHOUSE}" in happened
    assert evidence["sink"] == "rows"
    assert len(in_the_lake(stream)) == (200 if point is Failpoint.BEFORE_COMMIT else 100)
    relay.mend()
    stream.send_orders(50)
    stream.run(spark, **wire)
    assert in_the_lake(stream) == sorted(stream.orders)
    assert warehouse.problems(stream) == []


def test_one_sink_that_another_took_over_is_named(stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse) -> None:
    stream.send_orders(50)

    def take_over() -> None:
        taken = "UPDATE tidemark.sink SET generation = generation + 5, owner = 'another' WHERE target = %s"
        warehouse.ask(taken, f"public.{stream.name}")

    with at(Failpoint.BEFORE_WRITE, once(take_over)), pytest.raises(Fenced, match=f"Sink rows of {stream.name}") as ended:
        stream.run(spark)
    assert ended.value.evidence["sink"] == "rows"
    assert in_the_lake(stream) == []
    assert warehouse.rows(stream.name) == []


@pytest.mark.thorough("sink.before_write")
@pytest.mark.parametrize("point", [Failpoint.BEFORE_WRITE, Failpoint.IN_WRITE], ids=str)
def test_what_was_put_in_is_taken_back_if_another_sink_cannot_be_written(
    point: Failpoint, stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse
) -> None:
    """The database has the rows in its open transaction, or is about to, when the lake fails."""
    stream.send_orders(60)
    stream.run(spark)
    held = warehouse.rows(stream.name)
    stream.send_orders(40)
    with at(point, second(crash)), pytest.raises(FailpointReached) as ended:
        stream.run(spark)
    assert ended.value.__notes__ == [f"It was on its way to sink {stream.name}.lake."]
    assert len(in_the_lake(stream)) == 60
    assert warehouse.rows(stream.name) == held
    assert warehouse.booked(stream) == {"read": 60, "delivered": 60}
    stream.run(spark)
    assert in_the_lake(stream) == sorted(stream.orders)
    assert warehouse.problems(stream) == []


def test_nothing_is_committed_before_all_are_ready_and_then_by_name(
    stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse
) -> None:
    with_sinks(stream, "also", "lake", "rows")
    stream.send_orders(60)
    seen: list[tuple[bool, ...]] = []

    def look() -> None:
        seen.append((*(bool(stream.rows(suffix)) for suffix in ("_also", "")), bool(warehouse.rows(stream.name))))

    with at(Failpoint.BEFORE_COMMIT, look):
        stream.run(spark)
    assert seen == [(False, False, False), (True, False, False), (True, True, False)]
    assert warehouse.problems(stream) == []


def test_a_transaction_that_waits_for_another_sink_is_not_taken_for_one_that_sleeps(
    stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse
) -> None:
    """The lake takes longer than the database lets a transaction be idle."""
    stream.send_orders(60)
    there = json.loads(stream.variables()["AIRFLOW_CONN_WAREHOUSE"])
    wire = {"AIRFLOW_CONN_WAREHOUSE": json.dumps(there | {"extra": {"idle_in_transaction_session_timeout": "2s"}})}
    with at(Failpoint.IN_WRITE, second(lambda: time.sleep(5))):
        stream.run(spark, **wire)
    assert in_the_lake(stream) == sorted(stream.orders)
    assert warehouse.problems(stream) == []


def test_a_batch_that_is_made_once_more_for_one_sink_keeps_its_bad_records(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sink that is first by name counts the bad records, also when it wants its rows in another form."""
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals")
    rows = {"kind": stream.kind, "connection": WAREHOUSE, "table": stream.name, **KINDS[stream.kind]}
    stream.write_file(sinks={"a_rows": rows, "lake": {"kind": "delta_append", "table": stream.name}})
    stream.send_orders(40)
    stream.run(spark)
    warehouse.ask(SQL("ALTER TABLE public.{} ADD CHECK (orders < 0) NOT VALID").format(Identifier(stream.name)))
    stream.send_orders(40)
    stream.send(10, bad=5)
    stream.run(spark)
    assert "it takes record by record, for" in capsys.readouterr().out
    assert len(DeltaTable(stream.quarantine).to_pyarrow_table()) == 5
    assert warehouse.booked(stream)["quarantined"] == 5


def test_a_sink_that_is_down_can_be_taken_out_of_the_file_and_comes_back_later(
    stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse, relay: Relay
) -> None:
    """The others are uneven and must be levelled under the old file, which has the sink that is down."""
    wire = through(stream, relay)
    with_sinks(stream, "also", "lake", "rows")
    stream.send_orders(60)
    with at(Failpoint.AFTER_COMMIT, once(crash)), pytest.raises(FailpointReached):
        stream.run(spark, **wire)
    relay.cut()
    with_sinks(stream, "also", "lake", where="amount > 1000000")
    stream.run(spark, **wire)
    assert in_the_lake(stream) == in_the_lake(stream, "_also") == sorted(stream.orders)
    relay.mend()
    with_sinks(stream, "also", "lake", "rows")
    stream.send_orders(40)
    stream.run(spark, **wire)
    assert in_the_lake(stream) == in_the_lake(stream, "_also") == sorted(stream.orders)
    assert warehouse.problems(stream) == []


@pytest.mark.thorough("fence", "adoption")
@pytest.mark.parametrize("turn", [1, 2, 3], ids=["fence", "adoption", "batch"])
def test_a_table_that_is_added_from_earliest_adds_each_record_once(
    turn: int, stream: WarehouseStream, spark: SparkSession, warehouse: Warehouse
) -> None:
    """Killed inside the transaction of its fence, of its adoption and of its first batch."""
    with_sinks(stream, "lake")
    stream.send_orders(100)
    stream.run(spark)
    with_sinks(stream, "lake", "rows", begin="earliest")
    times = iter(range(1, 1_000))
    with at(Failpoint.IN_TRANSACTION, lambda: crash() if next(times) == turn else None), pytest.raises(FailpointReached):
        stream.run(spark)
    stream.send_orders(50)
    stream.run(spark)
    assert in_the_lake(stream) == sorted(stream.orders)
    assert warehouse.problems(stream) == []


def test_what_one_table_refers_to_in_another_is_committed_before(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    """By name: the users, then the orders, of which each refers to a user that may be new in the same batch."""
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals")
    users = {"kind": stream.kind, "connection": WAREHOUSE, "table": stream.name, **KINDS[stream.kind]}
    orders = {"kind": "postgres_insert_new", "connection": WAREHOUSE, "table": f"{stream.name}_orders", "key": ["event_id"]}
    stream.write_file(sinks={"a_users": users, "b_orders": orders})
    stream.send_orders(1)
    stream.run(spark)
    tables = {"orders": Identifier(f"{stream.name}_orders"), "users": Identifier(stream.name)}
    warehouse.ask(SQL("ALTER TABLE {orders} ADD FOREIGN KEY (user_id) REFERENCES {users} (user_id)").format(**tables))
    stream.send_orders(60)
    stream.run(spark)
    assert warehouse.problems(stream) == []
    assert len(warehouse.rows(f"{stream.name}_orders")) == len({order["event_id"] for order in stream.orders.values()})
