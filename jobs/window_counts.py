"""What is counted of one window, whatever its sink; each kind of sink counts in its own way."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.control.database import ControlDatabase
from include.control.window_contents import Counted, Difference
from include.topics.topic import TopicState
from jobs.made_by import Group
from jobs.measuring import Sides
from jobs.per_partition import PerPartition, add_up


class WindowCounts(ABC):
    """`count` is called for each group of segments, `finish` once, after them."""

    def __init__(self, sides: Sides, *, compacted: bool) -> None:
        self.sides = sides
        self.compacted = compacted
        self.counted: dict[int, Counted] = {}
        self.differences: list[Difference] = []
        self.findings: list[str] = []
        self.keys = 0
        self.distinct_keys = 0
        self.newest_ms: int | None = None
        self.duplicates: int | None = None

    @abstractmethod
    def count(self, group: Group) -> None: ...

    def finish(self, state: TopicState | None, control: ControlDatabase) -> Mapping[int, str]:
        """Returns the partitions that could not be judged after all, and why."""
        return {}

    def add(self, partitions: Iterable[int], *counted: PerPartition) -> None:
        for number in partitions:
            found: dict[str, Any] = {name: value for side in counted for name, value in side.get(number, {}).items()}
            self.counted[number] = add_up(self.counted.get(number, Counted()), Counted.model_validate(found))

    def add_keys(self, rows: int, distinct: int) -> None:
        self.keys += rows
        self.distinct_keys += distinct

    def see_time_of(self, rows: DataFrame) -> None:
        """Of the newest of them."""
        newest = (rows.agg(F.max(F.unix_millis("_kafka_timestamp"))).first() or [None])[0]
        self.newest_ms = max((one for one in (self.newest_ms, newest) if one is not None), default=None)
