"""One sink of several that is down or taken over is named; the others keep what they have, and the rest is delivered later."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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
    """The sinks come by in the order of their names: the lake, then the database."""
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


@pytest.mark.parametrize(
    "point",
    [None, Failpoint.AFTER_FENCE, Failpoint.BEFORE_WRITE, Failpoint.BEFORE_COMMIT],
    ids=lambda point: str(point or "before"),
)
def test_a_database_that_is_down_is_named_and_the_other_sink_keeps_what_it_has(
    point: Failpoint | None, stream: WarehouseStream, stack: Stack, spark: SparkSession, warehouse: Warehouse, relay: Relay
) -> None:
    """Before the start, in its take-over, on the executors, and in the transaction."""
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
    assert len(in_the_lake(stream)) == (200 if is_in_batch else 100)
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

    with at(Failpoint.BEFORE_WRITE, second(take_over)), pytest.raises(Fenced, match=f"Sink rows of {stream.name}") as ended:
        stream.run(spark)
    assert ended.value.evidence["sink"] == "rows"
    assert in_the_lake(stream) == sorted(stream.orders)
    assert warehouse.rows(stream.name) == []


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
