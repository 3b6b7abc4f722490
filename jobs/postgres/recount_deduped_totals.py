"""Recounts totals of the rows that dedupe lets pass: all records are added up anew, one of the copies of each. Totals hold no
coordinates: where it cannot be told which copies have passed, the rows of their keys are not compared.
"""

from dataclasses import replace
from functools import reduce
from operator import and_

from psycopg2.extensions import cursor as Cursor
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.fingerprint import state_hash
from include.contract.stream_spec import Dedupe, PostgresTotals
from include.control.window_contents import Segment
from include.tidemarks.logs import log_of
from jobs.copies import with_choice
from jobs.kept_rows import kept
from jobs.known_batches import read_known
from jobs.made_by import OTHER_STATE, Spec
from jobs.measuring import PLACE, Sides, copy_of, event_micros
from jobs.past_records import NOT_RECORDED
from jobs.postgres.recount_totals import TotalsCounting
from jobs.postgres.values_by_key import ValuesByKey

DOUBTFUL = (
    "{totals:,} totals that its records are in are not compared: they hold copies of a record that lie further apart than "
    "`within`"
)


class DedupedTotalsCounting(TotalsCounting):
    def __init__(self, sides: Sides, settings: PostgresTotals, dedupe: Dedupe) -> None:
        super().__init__(sides, settings, compacted=False)
        self._dedupe = dedupe

    def _compare(self, cursor: Cursor, segments: list[Segment], specs: dict[str, Spec]) -> dict[int, str]:
        """Batches that were committed since the snapshot are known too, but none of their records is asked for."""
        newest = log_of(self.sides.place).newest_version() or 0
        known = read_known(self.sides.place, self.sides.window, newest, lambda _: False)
        partitions = {one.partition for one in segments}
        if not known.is_whole:
            return dict.fromkeys(partitions, NOT_RECORDED)
        if len({state_hash(spec.stream) for spec in specs.values()}) > 1:
            return dict.fromkeys(partitions, OTHER_STATE)
        self.sides = replace(self.sides, known=known, kept=None)
        self._forgotten_ms = known.forgotten_ms
        return super()._compare(cursor, segments, specs)

    def _columns(self, spec: Spec) -> list[object]:
        return [*super()._columns(spec), copy_of(spec), event_micros(spec), "_batch"]

    def _judge(self, totals: ValuesByKey, good: DataFrame) -> dict[int, str]:
        """A rejected record is the one that has passed: its copies were duplicates."""
        choice = with_choice(good, self._dedupe.within, forgotten_ms=self._forgotten_ms)
        with kept(choice) as chosen:
            rejected = good.join(F.broadcast(self._rejected(totals.cursor)), PLACE, "left_semi").select("_copy_of")
            accepted = chosen.where("_passes").join(rejected, "_copy_of", "left_anti")
            doubtful = chosen.where("_doubtful").select(*self._settings.key).distinct()
            self.tell_differing(totals, accepted, doubtful)
            return self._left_out(chosen, doubtful)

    def _left_out(self, chosen: DataFrame, doubtful: DataFrame) -> dict[int, str]:
        window = self.sides.window
        mine = chosen.where(F.col("_batch").between(window.after_version + 1, window.up_to_version))
        same = reduce(and_, [F.col(f"m.{name}").eqNullSafe(F.col(f"d.{name}")) for name in self._settings.key])
        left_out = doubtful.alias("d").join(mine.alias("m"), same, "left_semi").count()
        if left_out:
            return dict.fromkeys(self.counted, DOUBTFUL.format(totals=left_out))
        self.duplicates = mine.where("NOT _passes").count()
        return {}
