"""`make bench-fan-out`: one stream with two sinks, Delta rows and PostgreSQL totals, against two streams with one sink each, on
the same records, alternating in one run. The two streams run one after the other: at once they would share the same cores.

What one stream saves is reading and decoding, so it depends on the records: bare orders of 120 bytes, and orders as shops send
them, of 1 KB, with items, addresses and a device that the streams do not read.
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
from jobs.driver_arguments import parse
from jobs.run_stream import Driver

WARM_UPS, ROUNDS = 2, 3  # in a new JVM the second round is still a third faster than the first
SIZES = {50_000: 6, 200_000: 4}  # records per batch: batches per round
FORMS: dict[str, dict[str, Any]] = {
    "bare": {},
    "whole": {
        "items": [
            {"sku": f"SKU-{number:06d}", "title": f"Thing number {number}", "quantity": number, "price": 9.99 + number}
            for number in range(1, 7)
        ],
        "ship_to": {"name": "A. Customer", "street": "12 Long Street", "zip": "01234", "city": "Harbour", "country": "XX"},
        "bill_to": {"name": "A. Customer", "street": "12 Long Street", "zip": "01234", "city": "Harbour", "country": "XX"},
        "device": {"os": "ios", "version": "18.2.1", "language": "en", "screen": [1170, 2532], "session": "4f1d7c2a9b8e"},
    },
}
LAKE, TOTALS = "lake", "totals"


def main() -> None:
    with bench_ground() as (stack, spark):
        for form, more in FORMS.items():
            for size, count in SIZES.items():
                fill(stack.kafka.connection.address, f"fan_out_{form}_{size}", size * count, more)
                measure(spark, stack, size, form)


def measure(spark: SparkSession, stack: Stack, size: int, form: str) -> None:
    """The middle of the rounds' ratios: a machine that is slower for a minute is so for both."""
    ratios: list[float] = []
    for number in range(WARM_UPS + ROUNDS):
        one = sum(batches(spark, stack, size, form, (LAKE, TOTALS)))
        two = sum(sum(batches(spark, stack, size, form, (sink,))) for sink in (LAKE, TOTALS))
        is_counted = number >= WARM_UPS
        note = "" if is_counted else "  (warm-up, not counted)"
        print(f"  {size:>9,} {form} one stream {one:6.2f} s, two streams {two:6.2f} s, {two / one:.2f}x{note}", flush=True)
        ratios += [two / one] if is_counted else []
    print(f"{form} orders, {size:,} a batch, {SIZES[size]} batches: {statistics.median(ratios):.2f}x", flush=True)


def batches(spark: SparkSession, stack: Stack, size: int, form: str, sinks: tuple[str, ...]) -> list[float]:
    """Seconds of each batch, as Spark says; the start of a driver is not among them."""
    name = f"fan_out_{uuid.uuid4().hex[:8]}"
    wanted = {sink: settings for sink, settings in _sinks(name).items() if sink in sinks}
    config = stack.home.folder / "config" / name
    os.environ["TIDEMARK_CONFIG"] = str(stream_file(config, name, f"fan_out_{form}_{size}", size, wanted))
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
