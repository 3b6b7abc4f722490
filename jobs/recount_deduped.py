"""Recounts a window of a Delta table to which the rows are appended that dedupe lets pass: a good record is there, or it is late,
or a copy of it is there that came no later and that the state still remembered.

Copies are looked for in the table, in what it has of this window and of the batches before it that the state may have remembered.
"""

from collections.abc import Mapping
from contextlib import ExitStack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.stream_spec import Dedupe
from include.control.database import ControlDatabase
from include.topics.topic import TopicState
from jobs.batch_of_record import OF_BATCH, with_batch
from jobs.copies import OF_A_COPY, delivered_again, with_duplicates
from jobs.differences import COPIED, told
from jobs.kept_rows import cached
from jobs.known_batches import KnownBatch, KnownBatches, read_known
from jobs.lost_files import told_if_lost
from jobs.made_by import Group, of_one_state
from jobs.measuring import DUPLICATE, PLACE, Sides, copy_of, event_micros
from jobs.past_records import NOT_RECORDED
from jobs.recount_append import AppendCounting


class DedupedCounting(AppendCounting):
    """Groups are counted when all are known: a copy may lie in any of them."""

    def __init__(self, sides: Sides, dedupe: Dedupe) -> None:
        super().__init__(sides, compacted=False)
        self._dedupe = dedupe
        self._groups: list[Group] = []
        self._kept = ExitStack()

    def count(self, group: Group) -> None:
        self._groups.append(group)

    def finish(self, state: TopicState | None, control: ControlDatabase) -> Mapping[int, str]:
        partitions = {one.partition for group in self._groups for one in group.segments}
        if not partitions:
            return {}
        known = self._known()
        if why := _why_not(self.sides, control, known):
            return dict.fromkeys(partitions, why)
        self.duplicates = 0
        with self._kept, told_if_lost(self.sides.place, self.sides.window.snapshot, self.findings):
            self._delivered = cached(self._delivered_in(known), self._kept)
            for group in self._groups:
                super().count(group)
            self._name_copies()
        return {}

    def records_of(self, group: Group) -> DataFrame:
        records = cached(super().records_of(group), self._kept)
        judged = cached(with_duplicates(records, self._delivered, self._dedupe.within), self._kept)
        self.duplicates = (self.duplicates or 0) + judged.where(F.col("_fate") == DUPLICATE).count()
        return judged

    def _known(self) -> KnownBatches:
        """Those of the window, and before it all that have events which the state of its first batch may have remembered."""
        window, mine = self.sides.window, self.sides.known
        late_ms = mine.batches[0].clock.late_ms if mine and mine.batches else 0
        remembered_ms = late_ms - int(self._dedupe.within.total_seconds() * 1000)

        def is_enough(batch: KnownBatch) -> bool:
            return batch.number <= window.after_version and batch.ends_before(remembered_ms)

        return read_known(self.sides.place, window, window.up_to_version, is_enough)

    def _delivered_in(self, known: KnownBatches) -> DataFrame:
        spec = self._groups[0].spec
        rows = self.sides.table().where(self.sides.is_of(known.spans)).select(*PLACE, copy_of(spec), event_micros(spec))
        return with_batch(rows, known.past).select(*OF_A_COPY, *OF_BATCH[1:])

    def _name_copies(self) -> None:
        spec, number = self._groups[0].spec, F.col("_batch")
        mine = self._delivered.where(number > self.sides.window.after_version)
        places = delivered_again(mine, self._delivered, self._dedupe.within).distinct()
        named = places.withColumn("kind", F.lit(COPIED))
        self.differences += told(named, lambda _, rows: self.sides.key_of(spec, *rows[0][:2]))


def _why_not(sides: Sides, control: ControlDatabase, known: KnownBatches) -> str | None:
    if not known.is_whole:
        return NOT_RECORDED
    return of_one_state(sides.spark, control, sides.stream, known.spec_hashes)
