"""Rows that are made once and read several times, kept in memory or, where that is full, on disk."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark import StorageLevel
from pyspark.sql import DataFrame


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """As they are: a cache of Spark's makes columns of them, which took half as long as decoding. And once they were read, they
    are not made again: if an executor is lost with some of them, the batch fails, and the next start reads it anew. They are made
    by whoever reads them first.
    """
    there = rows.localCheckpoint(eager=False, storageLevel=StorageLevel.MEMORY_AND_DISK)
    try:
        yield there
    finally:
        context = rows.sparkSession.sparkContext._jsc.sc()
        context.unpersistRDD(there._jdf.logicalPlan().rdd().id(), False)  # the frame's own unpersist knows of caches alone


def cached(rows: DataFrame, until: ExitStack) -> DataFrame:
    """In Spark's own cache, for frames that are compared and not delivered: what is lost of them is made again."""
    until.callback(rows.unpersist)
    return rows.persist(StorageLevel.MEMORY_AND_DISK)
