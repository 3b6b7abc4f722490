"""What Spark itself counted of the batch in hand behind its stateful operators: known as soon as the batch was consumed in full,
before any sink commits. The same numbers stand in the query's progress afterwards.
"""

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from jobs.last_execution import last_execution, nodes
from jobs.stateful_frame import SURVIVORS

LATE, DUPLICATES = "numRowsDroppedByWatermark", "numDroppedDuplicateRows"


@dataclass(frozen=True)
class SparkCounts:
    survivors: dict[int, int]  # per partition: records that came through dedupe
    late: int
    duplicates: int


def read_counts(spark: SparkSession, query: str) -> SparkCounts:
    execution = last_execution(spark, query)
    metrics = [node.metrics() for node in nodes(execution.executedPlan())]
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
