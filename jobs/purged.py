"""Keys whose delete maintenance may have taken out of the table (`purge_deleted_after`): that such a key is missing is right, and
so is an older row of it that came later.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.identity import DELETED
from include.control.window_contents import Segment
from include.tidemarks.logs import log_of
from jobs.differences import TWICE
from jobs.measuring import GOOD, PLACE, Sides
from jobs.merge_comparison import OF_A_RECORD, newest_of
from jobs.merge_sides import MergeSides


def merged_since(sides: Sides) -> list[Segment]:
    """What was merged after the window's commits, up to the snapshot: a delete among it may be the one that was purged."""
    window = sides.window
    commits = takewhile(lambda commit: commit.version > window.up_to_version, log_of(sides.place).standing(window.snapshot))
    notes = [commit.note for commit in commits if commit.note and commit.note.is_of(window.stream, window.sink)]
    return [
        Segment(partition=line.partition, start=line.start, end=line.end, spec_hash=note.spec_hash)
        for note in notes
        if note.tidemark and note.tidemark.epoch == window.epoch
        for line in note.ledger
        if not line.lost
    ]


def without_purged(differing: DataFrame, newest: DataFrame, later: MergeSides, key: Sequence[str], before: datetime) -> DataFrame:
    """`differing` keys, without those whose newest record up to the snapshot is a delete from before that time."""
    known = newest.select(*key, *OF_A_RECORD)
    if later.groups:
        known = known.unionByName(later.records().where(F.col("_fate") == GOOD).select(*key, *OF_A_RECORD))
    of_them = known.join(differing.select(*key).distinct(), list(key), "left_semi")
    is_purgeable = F.col(DELETED) & (F.col("_kafka_timestamp") < F.lit(before))
    purgeable = newest_of(of_them, key).where(is_purgeable).select(*key, F.struct(*PLACE).alias("_purged"))
    joined = differing.join(purgeable, list(key), "left")
    elsewhere = F.col("_there._partition") != F.col("_purged._partition")
    came_later = elsewhere | (F.col("_there._offset") > F.col("_purged._offset"))
    is_right = F.col("_purged").isNotNull() & (F.col("kind") != TWICE) & (F.col("_there").isNull() | came_later)
    return joined.where(~is_right).drop("_purged")
