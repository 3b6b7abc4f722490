"""`make bench-reconcile`: what a window costs over a short and over a ten times longer history, in one run; and beside it what
one could do instead: count the whole table, or let Great Expectations judge the raw rows.
"""

import os
import shutil
import statistics
import time
import uuid
from collections.abc import Callable

import yaml
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.delta_append import PARTITIONS, send
from bench.ground import bench_ground
from include.contract.catalog import find_stream
from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.control.database import ControlDatabase
from include.control.windows import Verdict
from include.local_stack.home import PROJECT
from include.local_stack.stack import Stack
from include.reconciliation.reconcile import Reconciliation
from jobs.driver_arguments import parse
from jobs.measure_window import measure_run
from jobs.run_stream import Driver

SHORT, LONG, WINDOW, ROUNDS = 500_000, 5_000_000, 50_000, 5
BATCH = 250_000


class Bench:
    def __init__(self, stack: Stack, spark: SparkSession) -> None:
        self._spark = spark
        self._address = stack.kafka.connection.address
        self._sent = 0
        self.name = f"recon_{uuid.uuid4().hex[:8]}"
        self.table = str(stack.home.lake / self.name)
        self._write_file(stack)
        admin = AdminClient({"bootstrap.servers": self._address})  # kept until it has answered
        admin.create_topics([NewTopic(self.name, PARTITIONS, 1)])[self.name].result(15)

    def _write_file(self, stack: Stack) -> None:
        config = stack.home.folder / "config" / self.name
        shutil.copytree(PROJECT / "config" / "schemas", config / "schemas")
        (config / "streams").mkdir()
        content = yaml.safe_load((PROJECT / "config" / "streams" / "orders_raw.yaml").read_text())
        content["source"] |= {"topic": self.name, "max_records_per_batch": BATCH}
        content["sinks"]["lake"]["table"] = self.name
        (config / "streams" / f"{self.name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
        os.environ["TIDEMARK_CONFIG"] = str(config)

    def grow_to(self, records: int) -> None:
        send(self._address, self.name, range(self._sent, records))
        self._sent = records
        Driver(parse([self.name, "--once"])).drive(lambda: self._spark)

    def window(self) -> dict[str, float]:
        """Seconds of each step over one more window."""
        self.grow_to(self._sent + WINDOW)
        return self.reconcile()

    def reconcile(self) -> dict[str, float]:
        environment = load_environment()
        control = ControlDatabase(read_connection(environment.control.connection))
        steps = Reconciliation(control, environment, find_stream(self.name), f"bench {uuid.uuid4()}")
        taken = {
            "choose": seconds(steps.choose),
            "audit": seconds(steps.audit),
            "measure": seconds(lambda: measure_run(self._spark, steps.stream, steps.run)),
            "judge": seconds(steps.judge),
        }
        assert [window.verdict for window in steps.windows()] == [Verdict.PASSED]
        return taken

    def median(self, title: str) -> float:
        rounds = [self.window() for _ in range(ROUNDS)]
        for number, taken in enumerate(rounds):
            print(f"  {title} {number}: " + ", ".join(f"{step} {one:.2f} s" for step, one in taken.items()), flush=True)
        return statistics.median(taken["choose"] + taken["audit"] + taken["measure"] for taken in rounds)


def main() -> None:
    with bench_ground() as (stack, spark):
        run(Bench(stack, spark), spark)


def run(bench: Bench, spark: SparkSession) -> None:
    bench.grow_to(SHORT)
    bench.reconcile()
    bench.window()  # warm-up, not counted
    short = bench.median(f"{WINDOW:,} records over {SHORT:,} rows")
    bench.grow_to(LONG)
    bench.reconcile()
    long = bench.median(f"{WINDOW:,} records over {LONG:,} rows")
    print(f"a window over ten times the history: {short:.2f} s -> {long:.2f} s, {long / short:.2f}x")
    rows = spark.read.format("delta").load(bench.table)
    full = seconds(lambda: rows.agg(F.count("*"), F.count_distinct("_partition", "_offset")).collect())
    print(f"count and count(distinct) of the whole table instead: {full:.2f} s, {full / long:.2f}x of the window")
    raw = seconds(lambda: judge_raw(spark, bench.table))
    print(f"Great Expectations on the raw rows instead: {raw:.2f} s, {raw / long:.2f}x of the window")


def judge_raw(spark: SparkSession, table: str) -> None:
    import great_expectations as gx
    from great_expectations.expectations.core.expect_column_values_to_be_unique import ExpectColumnValuesToBeUnique
    from great_expectations.expectations.core.expect_table_row_count_to_be_between import ExpectTableRowCountToBeBetween

    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_spark("raw").add_dataframe_asset("rows")
    place = F.concat_ws("/", "_partition", "_offset")
    rows = spark.read.format("delta").load(table).withColumn("place", place)
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": rows})
    for expectation in (ExpectTableRowCountToBeBetween(min_value=1), ExpectColumnValuesToBeUnique(column="place")):
        assert batch.validate(expectation).success


def seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
