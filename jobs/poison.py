"""Finds the record on which an expression fails, so that the person on call sees a partition and an offset, not a stack trace.

By halving: each step reads a part of the range again. Only after a batch has failed.
"""

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass, StreamFailure
from jobs.decode import decode
from jobs.exits import classify
from jobs.source import read_records
from jobs.transform import transform


class PoisonRecord(StreamFailure):
    """An expression of the stream file fails on a record."""

    exit_class = ExitClass.POISON


class PoisonSearch:
    def __init__(self, spark: SparkSession, stream: Stream, address: str) -> None:
        self._spark = spark
        self._stream = stream
        self._address = address

    def find(self, ranges: Mapping[int, tuple[int, int]], error: Exception) -> PoisonRecord:
        said = str(error).strip().splitlines()[0]
        for partition, (start, end) in ranges.items():
            if self._fails(partition, start, end):
                offset = self._first_failing(partition, start, end)
                return PoisonRecord(
                    f"An expression of {self._stream.name} fails on partition {partition}, offset {offset:,}: {said}",
                    state="Nothing of this batch was written.",
                    next_step="Mend the expression in the stream file (try_cast and try_divide give NULL), then start again.",
                    partition=partition,
                    offset=offset,
                    exception=said,
                )
        return PoisonRecord(
            f"An expression of {self._stream.name} failed, but on no record alone: {said}",
            state="Nothing of this batch was written.",
            exception=said,
        )

    def _first_failing(self, partition: int, start: int, end: int) -> int:
        while end - start > 1:
            middle = (start + end) // 2
            start, end = (start, middle) if self._fails(partition, start, middle) else (middle, end)
        return start

    def _fails(self, partition: int, start: int, end: int) -> bool:
        topic = self._stream.spec.source.topic
        records = read_records(self._spark, self._address, topic, {partition: start}, {partition: end})
        try:
            transform(decode(records, self._stream), self._stream).write.format("noop").mode("overwrite").save()
        except PySparkException as error:
            if classify(error) is not ExitClass.POISON:
                raise
            return True
        return False
