"""The plan by which Spark runs the batch in hand of a query, with what it counts there: internal to Spark, asked here alone."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession


def last_execution(spark: SparkSession, query: str) -> Any:
    """`query`: by name; this thread is in one of its batches, which was consumed in full."""
    running = next(one for one in spark.streams.active if one.name == query)
    return running._jsq.streamingQuery().lastExecution()


def nodes(plan: Any) -> Iterator[Any]:
    """The last operator first."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from nodes(children.apply(index))
