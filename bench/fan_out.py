"""`make bench-fan-out`: one stream with two sinks, Delta rows and PostgreSQL totals, against two streams with one sink each, on
the same records, alternating in one run. The two streams run one after the other: at once they would share the same cores.
"""

import os
import statistics
import uuid
from pathlib import Path
from typing import Any

import yaml
from pyspark.sql import SparkSession

from bench.delta_append import fill
from bench.ground import bench_ground
from include.local_stack.home import PROJECT
from include.local_stack.stack import Stack
from jobs.run_stream import Driver, parse

ROUNDS = 3
SIZES = {50_000: 6, 200_000: 4}  # records per batch: batches per round
LAKE, TOTALS = "lake", "totals"


def main() -> None:
    with bench_ground() as (stack, spark):
        for size, batches in SIZES.items():
            fill(stack.kafka.connection.address, f"fan_out_{size}", size * batches)
            measure(spark, stack, size)


def measure(spark: SparkSession, stack: Stack, size: int) -> None:
    seconds: dict[str, list[float]] = {"one stream": [], "two streams": []}
    for number in range(ROUNDS + 1):
        one = sum(batches(spark, stack, size, (LAKE, TOTALS)))
        two = sum(sum(batches(spark, stack, size, (sink,))) for sink in (LAKE, TOTALS))
        note = "" if number else "  (warm-up, not counted)"
        print(f"  {size:>9,} one stream {one:6.2f} s, two streams {two:6.2f} s{note}", flush=True)
        if number:
            seconds["one stream"].append(one)
            seconds["two streams"].append(two)
    middle = {way: statistics.median(times) for way, times in seconds.items()}
    ratio = middle["two streams"] / middle["one stream"]
    told = ", ".join(f"{way} {time:.2f} s" for way, time in middle.items())
    print(f"{size:,} a batch, {SIZES[size]} batches: {told}, {ratio:.2f}x", flush=True)


def batches(spark: SparkSession, stack: Stack, size: int, sinks: tuple[str, ...]) -> list[float]:
    """Seconds of each batch, as Spark says; the start of a driver is not among them."""
    name = f"fan_out_{uuid.uuid4().hex[:8]}"
    wanted = {sink: settings for sink, settings in _sinks(name).items() if sink in sinks}
    os.environ["TIDEMARK_CONFIG"] = str(stream_file(stack.home.folder / "config" / name, name, f"fan_out_{size}", size, wanted))
    driver = Driver(parse([name, "--once"]))
    driver.drive(lambda: spark)
    assert driver.query is not None
    progress = driver.query.recentProgress
    return [one["durationMs"]["triggerExecution"] / 1000 for one in progress if one["numInputRows"]]


def _sinks(name: str) -> dict[str, dict[str, Any]]:
    totals = {
        "kind": "postgres_totals",
        "connection": "warehouse",
        "key": ["user_id"],
        "sum": ["amount_cents"],
        "count": "orders",
    }
    return {LAKE: {"kind": "delta_append", "table": name}, TOTALS: {**totals, "table": name}}


def stream_file(config: Path, name: str, topic: str, size: int, sinks: dict[str, dict[str, Any]]) -> Path:
    for folder in ("schemas", "streams"):
        (config / folder).mkdir(parents=True, exist_ok=True)
    (config / "schemas" / "order.yaml").write_text((PROJECT / "config" / "schemas" / "order.yaml").read_text())
    content = yaml.safe_load((PROJECT / "config" / "streams" / "user_metrics.yaml").read_text())
    content["source"] |= {"topic": topic, "max_records_per_batch": size}
    content |= {"sinks": sinks, "reconcile": {"every": "15 minutes"}}
    (config / "streams" / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return config


if __name__ == "__main__":
    main()
