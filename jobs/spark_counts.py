"""What Spark itself counted of the batch in hand behind its stateful operators: known as soon as the batch was consumed in full,
before any sink commits. The same numbers stand in the query's progress afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from jobs.stateful_frame import SURVIVORS

LATE, DUPLICATES = "numRowsDroppedByWatermark", "numDroppedDuplicateRows"


@dataclass(frozen=True)
class SparkCounts:
    survivors: dict[int, int]  # per partition: records that came through dedupe
    late: int
    duplicates: int


def read_counts(spark: SparkSession, query: str) -> SparkCounts:
    """`query`: by name; this thread is in one of its batches."""
    running = next(one for one in spark.streams.active if one.name == query)
    execution: Any = running._jsq.streamingQuery().lastExecution()
    metrics = [node.metrics() for node in _nodes(execution.executedPlan())]
    late, duplicates = (sum(one.apply(name).value() for one in metrics if one.contains(name)) for name in (LATE, DUPLICATES))
    return SparkCounts(_survivors(execution), int(late), int(duplicates))


def _survivors(execution: Any) -> dict[int, int]:
    """A bin of the histogram per task and partition."""
    observed = execution.observedMetrics()
    bins: Any = observed.apply(SURVIVORS).get(0) if observed.contains(SURVIVORS) else None
    found: dict[int, int] = {}
    for index in range(0 if bins is None else bins.size()):
        one = bins.apply(index)
        found[int(one.get(0))] = found.get(int(one.get(0)), 0) + int(one.get(1))
    return found


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
