"""Counts a run's windows again: what Kafka holds, made into rows anew, against what the tables hold (P7.1).

Submitted by `reconcile_<stream>`, after the ledger was audited. Reads only; what it counted is kept with the window.
"""

import argparse
import sys

from pyspark.sql import SparkSession

from include.contract.catalog import Stream, find_stream
from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.places import Places
from include.control.database import ControlDatabase
from include.control.window_contents import Measured
from include.control.windows import Window, windows_of_run, write_measured
from include.topics.topic import Topic
from jobs.measuring import KeptRecords, Sides
from jobs.recount import recount
from jobs.session import open_session


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream")
    parser.add_argument("--run", required=True, help="the DAG run whose windows are measured")
    wanted = parser.parse_args(arguments)
    measure_run(open_session(f"measure {wanted.stream}"), find_stream(wanted.stream), wanted.run)


def measure_run(spark: SparkSession, stream: Stream, run: str) -> None:
    environment = load_environment()
    control = ControlDatabase(read_connection(environment.control.connection))
    places = Places.of(stream, environment)
    topic = Topic(read_connection(stream.spec.source.connection).address, stream.spec.source.topic)
    with control.transaction() as cursor:
        windows = windows_of_run(cursor, stream.name, run)
    kept = KeptRecords() if _ask_for_the_same(windows) else None
    for window in windows:
        sides = Sides(spark, stream, window, topic, places.sinks[window.sink], places.quarantine, kept)
        measured = recount(sides, control)
        with control.transaction() as cursor:
            write_measured(cursor, window.id, measured)
        tell(window, measured)
    if kept:
        kept.forget()


def _ask_for_the_same(windows: list[Window]) -> bool:
    asked = [window.audited.segments for window in windows if window.audited]
    return len(set(asked)) < len(asked)


def tell(window: Window, measured: Measured) -> None:
    counted = measured.counted.values()
    kafka, rows = sum(one.kafka_read for one in counted), sum(one.table_rows for one in counted)
    print(f"window {window.id} of {window.stream}.{window.sink}: {kafka:,} records in Kafka, {rows:,} rows in the table")
    for difference in measured.differences:
        print(f"  {difference.tell()}")
    for finding in measured.findings:
        print(f"  {finding}")


if __name__ == "__main__":
    main(sys.argv[1:])
