"""The records of which a state was made, as Kafka still has them, and which of their copies dedupe let pass: found out again from
the recorded batches alone, without Spark's state (P7.11).
"""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.control.database import ControlDatabase
from include.topics.topic import TopicState
from jobs.copies import with_choice
from jobs.known_batches import KnownBatches
from jobs.made_by import Spec, of_one_state
from jobs.measuring import GOOD, Sides, copy_of, event_micros
from jobs.reach import Reach

NOT_RECORDED = "the sink's log no longer has, or never had, all batches of which the state remembered records"
EXPIRED = "Kafka begins at {earliest:,}, but what its records are judged by, copies of them among it, begins at {start:,}"


@dataclass(frozen=True)
class PastRecords:
    """`spec`: all batches have the same rows, or `why_not` says that they have not."""

    sides: Sides
    spec: Spec
    reach: Reach
    known: KnownBatches

    def why_not(self, state: TopicState, control: ControlDatabase) -> str | None:
        """Why they cannot be told; None if they can."""
        if not self.known.is_whole:
            return NOT_RECORDED
        for one in self.known.spans:
            if (earliest := state.earliest.get(one.partition, 0)) > one.start:
                return EXPIRED.format(earliest=earliest, start=one.start)
        return of_one_state(self.sides.spark, control, self.sides.stream, self.known.spec_hashes)

    def chosen(self) -> DataFrame:
        """The good ones, with `_passes` and `_doubtful`."""
        rows = replace(self.sides, known=self.known, kept=None).records(self.spec, self.known.spans)
        good = rows.where(F.col("_fate") == GOOD).withColumns({"_copy_of": copy_of(self.spec), "_at": event_micros(self.spec)})
        return with_choice(good, self.reach.within, self.reach.certain_from(self.known), self.known.forgotten_ms)
