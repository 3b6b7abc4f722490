"""Which records of a window are duplicates, for sinks whose rows cannot tell: a later row may have taken the place of the copy
that passed, and a topic is read from commit to commit. Once it is known, such a sink is counted like that of a stateless stream.
"""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.stream_spec import DeltaAppend, DeltaMerge, PostgresInsertNew, PostgresTotals
from include.control.database import ControlDatabase
from include.topics.topic import TopicState
from jobs.kept_rows import cached
from jobs.made_by import Group
from jobs.measuring import PLACE, Sides
from jobs.past_records import PastRecords
from jobs.reach import Reach

TELLS_BY_ITSELF = (DeltaAppend, PostgresTotals)  # see recount_deduped, recount_deduped_totals
DOUBTFUL = (
    "of {records:,} records it cannot be told whether they are duplicates: they have copies that lie further apart than "
    "`within`, or that were forgotten"
)


@dataclass(frozen=True)
class ChosenCopies:
    """`duplicates`: of the window, per partition; none where they are not to be compared with the books."""

    sides: Sides
    duplicates: Mapping[int, int] | None = None
    not_judged: dict[int, str] = field(default_factory=dict)

    def in_partitions(self, counted: Collection[int]) -> int | None:
        """In those that were counted again; the books of others are not compared."""
        return sum((self.duplicates or {}).get(number, 0) for number in counted) if counted else None


def choose_copies(
    sides: Sides, groups: list[Group], state: TopicState | None, control: ControlDatabase, until: ExitStack
) -> ChosenCopies:
    """Sides whose records know that they are duplicates, as long as `until` holds. Others than rows behind dedupe as they are."""
    spec, settings = sides.stream.spec, sides.stream.spec.sinks[sides.window.sink]
    if spec.dedupe is None or spec.aggregate is not None or isinstance(settings, TELLS_BY_ITSELF) or not groups or state is None:
        return ChosenCopies(sides)
    reach, window = Reach.of_rows(sides, spec.dedupe), sides.window
    is_purged = isinstance(settings, DeltaMerge) and settings.purge_deleted_after is not None
    known = reach.read(sides, window.snapshot if is_purged else window.up_to_version)  # see `purged`
    past = PastRecords(sides, groups[0].spec, reach, known)
    partitions = {one.partition for group in groups for one in group.segments}
    if why := past.why_not(state, control):
        return ChosenCopies(sides, not_judged=dict.fromkeys(partitions, why))
    chosen = cached(past.chosen().select(*PLACE, "_batch", "_passes", "_doubtful"), until)
    mine = chosen.where(F.col("_batch").between(window.after_version + 1, window.up_to_version))
    if doubtful := mine.where("_doubtful").count():
        return ChosenCopies(sides, not_judged=dict.fromkeys(partitions, DOUBTFUL.format(records=doubtful)))
    counts_its_own = isinstance(settings, PostgresInsertNew)  # also a record whose key it has had for longer than `within`
    duplicates = None if counts_its_own else _per_partition(mine.where("NOT _passes"))
    return ChosenCopies(replace(sides, known=known, duplicates=chosen.where("NOT _passes").select(*PLACE)), duplicates)


def _per_partition(records: DataFrame) -> dict[int, int]:
    return {row["_partition"]: row["count"] for row in records.groupBy("_partition").count().toLocalIterator()}
