"""Counts what becomes of a batch's records, per partition, while its rows are written: one `observe`, no second pass."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from include.checkpoints.spark_log import BatchRange
from include.contract.exit_class import ExitClass, StreamFailure
from include.tidemarks.note import LedgerLine
from jobs.sink import NOTHING

READ_ABOVE_LOWEST = "read_above_lowest"
LACKING = "_lacking"  # by the sink that is counted for


class CountsDiffer(StreamFailure):
    """Two ways of counting the same rows disagree."""

    exit_class = ExitClass.INFRASTRUCTURE


@dataclass(frozen=True)
class Bounds:
    """What a sink still lacks of a batch: [start, end) per partition, after the drop below its tidemark (P3.8)."""

    ranges: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, batch: BatchRange, tidemark: Mapping[int, int]) -> "Bounds":
        ranges = {number: (max(batch.starts[number], tidemark.get(number, 0)), end) for number, end in batch.ends.items()}
        return cls({number: (start, end) for number, (start, end) in sorted(ranges.items()) if start < end})

    def of_rows(self) -> Column:
        """For a table: its files are skipped by these numbers."""
        each = (f"(_partition = {n:d} AND _offset BETWEEN {start:d} AND {end - 1:d})" for n, (start, end) in self.ranges.items())
        return F.expr(" OR ".join(each) or "false")

    def of_records(self) -> str:
        """For a batch: lists are handed to the code that Spark generates, single numbers are written into it. So the next batch
        finds its code compiled. As text because each call that builds a column from Python takes its time."""
        starts, ends = zip(*(self.ranges.get(number, (0, 0)) for number in range(max(self.ranges, default=0) + 1)), strict=True)
        return f"_offset >= get({_list(starts)}, _partition) AND _offset < get({_list(ends)}, _partition)"


@dataclass(frozen=True)
class Refusal:
    """Records of a batch that cannot be delivered: bad ones, to no sink; or those whose row one sink cannot hold (P3.6)."""

    sink: str | None
    condition: str  # of our own making
    why: str = ""  # what the sink says against such a row


FATES = {"quarantined": "_bad", "filtered": "_filtered"}  # a record that has none of them is delivered, or its sink refuses it
FATES_WITH_STATE = {**FATES, "late": "_late", "duplicates": "_duplicate"}


def refused_by(bounds: Bounds, sink: str, condition: str, why: str, fates: Mapping[str, str] = FATES) -> Refusal:
    return Refusal(sink, f"{bounds.of_records()} AND {_none_of(fates)} AND ({condition})", why)


def _none_of(fates: Mapping[str, str]) -> str:
    return " AND ".join(f"NOT {name}" for name in fates.values())


class Counting:
    """Of one sink: the rows it gets; when they are written, the ledger is counted. `refusals` are those of all sinks: counted
    in the same pass, for they are kept before the first of them commits."""

    def __init__(
        self,
        rows: DataFrame,
        bounds: Bounds,
        lowest: Bounds,
        refuses: str = NOTHING,
        refusals: Sequence[Refusal] = (),
        fates: Mapping[str, str] = FATES,
    ) -> None:
        self.bounds = bounds
        self._rows = rows
        self._fates = fates
        self._lowest = lowest
        self._refuses = refuses
        self._refusals = refusals
        self._observation = Observation()

    def to_write(self) -> DataFrame:
        """Drops what lies below the sink's tidemark, what is bad, filtered or refused, and counts all of it."""
        lacking = self._rows.withColumn(LACKING, F.expr(self.bounds.of_records()))
        is_delivered = f"{LACKING} AND {_none_of(self._fates)} AND NOT ({self._refuses})"
        return lacking.observe(self._observation, *self._counts()).where(is_delivered).drop(LACKING)

    def _counts(self) -> list[Column]:
        wanted = {READ_ABOVE_LOWEST: self._lowest.of_records()}
        wanted |= {f"refusal_{number}": refusal.condition for number, refusal in enumerate(self._refusals)}
        for number in self.bounds.ranges:
            here = f"{LACKING} AND _partition = {number:d}"
            wanted |= {
                f"read_{number}": here,
                **{f"{fate}_{number}": f"{here} AND {name}" for fate, name in self._fates.items()},
                f"rejected_{number}": f"{here} AND {_none_of(self._fates)} AND ({self._refuses})",
            }
        return [F.expr(f"count_if({condition})").alias(name) for name, condition in wanted.items()]

    @property
    def expected(self) -> int:
        return sum(line.delivered for line in self.ledger())

    @property
    def read_above_lowest(self) -> int:
        return int(self._observation.get[READ_ABOVE_LOWEST])

    @property
    def refused(self) -> dict[Refusal, int]:
        """Those that there are, and how many records each of them is about."""
        counts = {refusal: int(self._observation.get[f"refusal_{number}"]) for number, refusal in enumerate(self._refusals)}
        return {refusal: count for refusal, count in counts.items() if count}

    def ledger(self) -> list[LedgerLine]:
        counted = self._observation.get
        lines = []
        for number, (start, end) in self.bounds.ranges.items():
            read = int(counted[f"read_{number}"])
            _check_read(read, number, start, end)
            fates = {what: int(counted[f"{what}_{number}"]) for what in (*self._fates, "rejected")}
            delivered = read - sum(fates.values())
            lines.append(LedgerLine(partition=number, start=start, end=end, read=read, delivered=delivered, **fates))
        return lines


class CountedBefore:
    """In the place of `Counting`, where results are written and not records: these were counted already, for all sinks alike."""

    def __init__(
        self, rows: DataFrame, expected: int, bounds: Bounds, lines: Mapping[int, LedgerLine], refusals: Sequence[Refusal] = ()
    ) -> None:
        self.expected = expected
        self.bounds = bounds
        self._rows = rows
        self._lines = lines
        self._refusals = refusals

    def to_write(self) -> DataFrame:
        return self._rows

    @property
    def read_above_lowest(self) -> int:
        return sum(line.read for line in self.ledger())

    @property
    def refused(self) -> dict[Refusal, int]:
        bad = sum(line.quarantined for line in self.ledger())
        return {refusal: bad for refusal in self._refusals if bad}

    def ledger(self) -> list[LedgerLine]:
        nothing = LedgerLine(partition=0, start=0, end=0)
        return [
            self._lines.get(number, nothing).model_copy(update={"partition": number, "start": start, "end": end})
            for number, (start, end) in self.bounds.ranges.items()
        ]


def check_rows(written: int, expected: int, sink: str) -> None:
    """The sink counted the rows it took, we counted the records: the same number, or something is badly wrong."""
    if written != expected:
        raise CountsDiffer(
            f"Sink {sink}: {written:,} rows were written for {expected:,} records.",
            state="Nothing was committed.",
            next_step="Start the stream again; if it repeats, keep the driver's log and report it.",
        )


def _check_read(read: int, partition: int, start: int, end: int) -> None:
    """Spark counts the records of a task twice that it runs again before a shuffle, when an executor was lost."""
    if read > end - start:
        raise CountsDiffer(
            f"Partition {partition} has {end - start:,} offsets from {start:,} to {end:,}, but {read:,} records were counted.",
            state="Nothing was committed.",
            next_step="Start the stream again; if it repeats, keep the driver's log and report it.",
        )


def _list(numbers: Iterable[int]) -> str:
    return f"array({', '.join(f'{number:d}L' for number in numbers)})"
