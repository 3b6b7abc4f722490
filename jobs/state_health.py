"""What a stateful stream's operators hold and dropped in the batch in hand, by Spark's own count: the numbers of the query's
progress, but of this batch and not of the one before. Asked when the batch was consumed in full; changes nothing.
"""

from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from include.contract.stream_spec import StreamSpec
from include.control.state_health import OperatorState, StateHealth
from include.tidemarks.note import EventClock
from jobs.last_execution import last_execution, nodes

WRITES_STATE = "org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter"
ON_DISK, DUPLICATES = "rocksdbSstFileSize", "numDroppedDuplicateRows"


@dataclass(frozen=True)
class Dropped:
    """`late` counts records behind dedupe; without it, keys and windows that such records would have been in."""

    late: int
    duplicates: int
    by_window: bool

    @property
    def told(self) -> str:
        late = f", late for {self.late:,} closed windows" if self.by_window else f", {self.late:,} late"
        duplicates = f", {self.duplicates:,} duplicates"
        return f"{duplicates if self.duplicates else ''}{late if self.late else ''}"


@dataclass(frozen=True)
class StateSaid:
    operators: tuple[OperatorState, ...]
    dropped: Dropped

    def health(self, clock: EventClock | None) -> StateHealth | None:
        """`clock`: of a sink that has the batch."""
        return StateHealth(clock.watermark_ms, clock.highest_ms, self.operators) if clock else None


def ask_state(spark: SparkSession, query: str, spec: StreamSpec) -> StateSaid:
    gateway: Any = spark.sparkContext._gateway
    plan = nodes(last_execution(spark, query).executedPlan())
    told = [node.getProgress() for node in plan if is_instance_of(gateway, node, WRITES_STATE)]
    late = sum(int(one.numRowsDroppedByWatermark()) for one in told)
    dropped = Dropped(late, sum(_custom(one, DUPLICATES) for one in told), by_window=spec.dedupe is None)
    return StateSaid(tuple(_operator(one) for one in reversed(told)), dropped)


def _operator(told: Any) -> OperatorState:
    rows, memory = int(told.numRowsTotal()), int(told.memoryUsedBytes())
    return OperatorState(str(told.operatorName()), rows, memory, _custom(told, ON_DISK))


def _custom(told: Any, name: str) -> int:
    """A metric that only some operators have."""
    return int(told.customMetrics().getOrDefault(name, 0))
