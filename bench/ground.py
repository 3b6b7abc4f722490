"""What a measurement runs on: PostgreSQL and Kafka of its own in var/bench, and a Spark session as a job finds it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from include.local_stack.home import VAR, StackHome
from include.local_stack.stack import Stack
from jobs.session import open_session


@contextmanager
def bench_ground() -> Iterator[tuple[Stack, SparkSession]]:
    stack = Stack(StackHome(VAR / "bench"), with_airflow=False)
    try:
        stack.up()
        os.environ.update(stack.job_environment())
        yield stack, open_session("bench")
    finally:
        stack.down()
