"""By what the newer of two rows of one key is known, which records have no key, and which delete theirs: the same in every batch,
after every restart, and at a recount.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

from include.contract.stream_spec import DeltaMerge

OF_RESULTS = ("_generation", "_batch_id")  # absolute values of windows: those of a later batch hold
SETTLES_TIES = ("_topic_epoch", "_partition", "_offset")


def order_of(settings: DeltaMerge) -> tuple[str, ...]:
    """The columns that are compared, one after the other. No two records have the same values in all of them."""
    if settings.order is None:
        return OF_RESULTS
    if settings.is_by_offset:
        return ("_topic_epoch", "_offset", "_partition")
    return (settings.order, *SETTLES_TIES)


def as_one_value(order: tuple[str, ...]) -> Column:
    """Compared as a whole; NULL is less than anything else."""
    return F.struct(*order)


def has_no_key(settings: DeltaMerge) -> str:
    return " OR ".join(f"`{name}` IS NULL" for name in settings.key)


def is_delete(settings: DeltaMerge) -> Column:
    deletes = F.coalesce(F.col(settings.deleted), F.lit(False)) if settings.deleted else F.lit(False)
    return F.col("_tombstone") | deletes
