"""What sinks get of a batch, and how it is counted: its records, each with its fate, or results of windows made of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.checkpoints.spark_log import BatchRange
from include.tidemarks.note import EventClock, LedgerLine, Tidemark
from jobs.counting import FATES, FATES_WITH_STATE, Bounds, CountedBefore, Counting, Refusal, refused_by
from jobs.sink import NOTHING, Sink


class Content(Protocol):
    @property
    def clock(self) -> EventClock | None:
        """Of a stateful stream."""

    def refusals(self, sink: Sink, span: BatchRange) -> Iterator[Refusal]:
        """What a sink cannot hold of it."""

    def counted(self, sink: Sink, span: BatchRange, lowest: Bounds, refusals: tuple[Refusal, ...]) -> Counting | CountedBefore:
        """What a sink gets of it."""

    def own_columns(self, moved: Tidemark) -> dict[str, Column]:
        """Those that every table of ours has beside the stream's."""


@dataclass(frozen=True)
class Records:
    """`rows`: slim, with every fate, kept by the caller; `clock`: of rows behind dedupe."""

    rows: DataFrame
    clock: EventClock | None = None

    @property
    def _fates(self) -> Mapping[str, str]:
        return FATES_WITH_STATE if self.clock else FATES

    def refusals(self, sink: Sink, span: BatchRange) -> Iterator[Refusal]:
        if sink.refuses != NOTHING:
            bounds = Bounds.of(span, sink.tidemark.offsets)
            yield refused_by(bounds, sink.sink, sink.refuses, sink.why_it_refuses, self._fates)

    def counted(self, sink: Sink, span: BatchRange, lowest: Bounds, refusals: tuple[Refusal, ...]) -> Counting:
        return Counting(self.rows, Bounds.of(span, sink.tidemark.offsets), lowest, sink.refuses, refusals, self._fates)

    def own_columns(self, moved: Tidemark) -> dict[str, Column]:
        return {
            **_of_commit(moved),
            # Not a number that is written into generated code, see Bounds.of_records.
            "_batch_id": F.expr(f"get(array_repeat({moved.batch:d}L, {max(moved.offsets) + 1:d}), _partition)"),
        }


@dataclass(frozen=True)
class Results:
    """`rows`: kept by the caller, `count` of them; `lines`: per partition, what became of the records that they were made of."""

    rows: DataFrame
    count: int
    lines: Mapping[int, LedgerLine]
    clock: EventClock

    def refusals(self, sink: Sink, span: BatchRange) -> Iterator[Refusal]:
        """None: results have a key, for a record without one is quarantined."""
        return iter(())

    def counted(self, sink: Sink, span: BatchRange, lowest: Bounds, refusals: tuple[Refusal, ...]) -> CountedBefore:
        return CountedBefore(self.rows, self.count, Bounds.of(span, sink.tidemark.offsets), self.lines, refusals)

    def own_columns(self, moved: Tidemark) -> dict[str, Column]:
        """A result comes of many records: it has no coordinates of its own."""
        return {
            **_of_commit(moved),
            "_batch_id": F.lit(moved.batch).cast("bigint"),
            "_partition": F.lit(None).cast("int"),
            "_offset": F.lit(None).cast("bigint"),
            "_kafka_timestamp": F.lit(None).cast("timestamp"),
            "_tombstone": F.lit(False),
        }


def _of_commit(moved: Tidemark) -> dict[str, Column]:
    return {
        "_topic_epoch": F.lit(moved.epoch).cast("int"),
        "_generation": F.lit(moved.generation).cast("bigint"),
    }
