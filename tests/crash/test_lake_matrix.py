"""Streams into Delta tables, killed (SIGKILL) at every boundary and started again: the tables are what plain arithmetic says.

`make test` tries each boundary of a fan-out, whose first sink is a merge; `make crash-matrix` all of them, also of a merge and of
an append alone, with every way of starting again.
"""

import os
import signal
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from jobs.failpoints import Failpoint
from tests.crash.matrix_page import every, pairwise
from tests.latest import LatestStream
from tests.streams import TrialStream
from tests.warehouse import Warehouse
from tests.warm_jvm import lent

BOUNDARIES = {
    "before anything is written": Failpoint.BEFORE_WRITE,
    "after the files": Failpoint.IN_WRITE,
    "before the commit": Failpoint.BEFORE_COMMIT,
    "after the commit": Failpoint.AFTER_COMMIT,
}
APPEND, MERGE, FAN_OUT = "append", "merge", "merge and totals"
SHAPES = [APPEND, MERGE, FAN_OUT]
TURNS = {APPEND: 2, MERGE: 2, FAN_OUT: 3}  # of the second batch; a fan-out comes by for each sink, here for its first
IS_WHOLE = "TIDEMARK_MATRIX" in os.environ
CASES = every(SHAPES, list(BOUNDARIES)) if IS_WHOLE else pairwise([FAN_OUT], list(BOUNDARIES))
WITH_ITS_JVM = "as it was"  # in the whole matrix; otherwise only the Python of a driver dies, in a JVM that is lent to it


@pytest.mark.parametrize(("shape", "boundary", "restart"), CASES)
def test_nothing_is_lost_or_added_twice(
    shape: str, boundary: str, restart: str, stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = stream_of(shape, stack, tmp_path)
    _send(stream)
    for _ in range(2 if restart == "killed there again" else 1):
        with nullcontext() if IS_WHOLE and restart == WITH_ITS_JVM else lent(spark) as jvm:
            driver = stream.start(failpoint=f"{BOUNDARIES[boundary]}=kill@{TURNS[shape]}", jvm=jvm)
            assert driver.wait(120) == -signal.SIGKILL, stream.log()
        _send(stream)
    if restart == "with larger batches":
        _write(stream, shape, max_records_per_batch=5_000)
    stream.run(spark)
    assert wrong(stream, shape, warehouse) == []


def stream_of(shape: str, stack: Stack, folder: Path) -> TrialStream:
    stream = TrialStream(stack, folder) if shape == APPEND else LatestStream(stack, folder)
    _write(stream, shape)
    return stream


def _write(stream: TrialStream, shape: str, **source: object) -> None:
    changes = {f"source__{name}": value for name, value in source.items()}
    if shape == FAN_OUT:
        latest = {"kind": "delta_merge", "table": stream.name, "key": ["user_id"], "order": "ts", "deleted": "gone"}
        totals = {"kind": "postgres_totals", "connection": "warehouse", "table": stream.name, "key": ["user_id"]}
        changes["sinks"] = {"lake": latest, "totals": {**totals, "sum": ["amount_cents"], "count": "orders"}}
    stream.write_file(**changes)


def _send(stream: TrialStream) -> None:
    if isinstance(stream, LatestStream):
        stream.send_orders(400)  # two batches: the driver dies in the second
    else:
        stream.send(400, bad=5, filtered=20)


def wrong(stream: TrialStream, shape: str, warehouse: Warehouse) -> list[str]:
    if not isinstance(stream, LatestStream):
        return stream.problems()
    booked = stream.booked()
    unaccounted = booked.pop("read") - sum(booked.values())
    told = [f"{unaccounted} records are not accounted for"] if unaccounted else []
    return [*stream.wrong_keys(), *told, *(_wrong_totals(stream, warehouse) if shape == FAN_OUT else [])]


def _wrong_totals(stream: LatestStream, warehouse: Warehouse) -> list[str]:
    counts, sums = Counter[str](), Counter[str]()
    for order in stream.records.values():
        counts[order["user_id"]] += 1
        sums[order["user_id"]] += order["amount"] * 100
    there = {row["user_id"]: (row["orders"], row["amount_cents"]) for row in warehouse.rows(stream.name)}
    wanted = {key: (counts[key], sums[key]) for key in counts}
    return [
        f"{key}: totals {there.get(key)} instead of {wanted.get(key)}"
        for key in wanted | there
        if there.get(key) != wanted.get(key)
    ]
