"""The sides of a window as slim frames: coordinates, a hash of the row, its key. Each side is read once and kept for as long as
it is compared; files of a table that lie outside of the window's offsets are skipped by Delta's statistics.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.contract.catalog import Stream
from include.contract.fingerprint import judging_hash
from include.contract.places import Place
from include.control.window_contents import Segment
from include.control.windows import Window
from include.topics.topic import Topic
from jobs.batch_of_record import OF_BATCH, with_batch
from jobs.known_batches import KnownBatches
from jobs.made_by import Group, Spec
from jobs.source import read_records
from jobs.stateful_frame import is_late
from jobs.transform import RAW, rows_of
from jobs.unfit import watermark_of

GOOD, BAD, FILTERED, REJECTED = "good", "bad", "filtered", "rejected"
LATE, DUPLICATE = "late", "duplicate"  # of a stateful stream
PLACE = ["_partition", "_offset"]


class KeptRecords:
    """Records that several windows of a run ask for: sinks of one stream get the same. Read and made into rows once."""

    def __init__(self) -> None:
        self._frames: dict[tuple[Segment, ...], DataFrame] = {}

    def get(self, segments: tuple[Segment, ...], read: Callable[[], DataFrame]) -> DataFrame:
        if segments not in self._frames:
            self._frames[segments] = read().persist(StorageLevel.MEMORY_AND_DISK)
        return self._frames[segments]

    def forget(self) -> None:
        for frame in self._frames.values():
            frame.unpersist()


@dataclass(frozen=True)
class Sides:
    """Of one window: where each side is, and how it is read."""

    spark: SparkSession
    stream: Stream
    window: Window
    topic: Topic
    place: Place
    quarantine: str
    kept: KeptRecords | None = None
    known: KnownBatches | None = None  # of a stateful stream: the batches whose records are asked for
    duplicates: DataFrame | None = None  # places, where they are known: see chosen_copies

    def kafka(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        of_state = [copy_of(spec), event_micros(spec), *map(F.col, OF_BATCH)] if self.known else []
        return self._slim(self.records(spec, segments), spec, F.col("_fate"), *of_state)

    def records(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        """Every record with its fate, made into a row by the spec that the ledger names: each segment says which. Of a stateful
        stream also with its batch, whose watermark says whether it was late."""
        kept = self.kept
        read = kept.get(tuple(segments), lambda: self._read(spec, segments)) if kept else self._read(spec, segments)
        if self.known is None:
            return read
        in_time = _with_late(with_batch(read, self.known.past), spec)
        return in_time if self.duplicates is None else _with_duplicates(in_time, self.duplicates)

    def _read(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        starts = {one.partition: min(each.start for each in segments if each.partition == one.partition) for one in segments}
        ends = {one.partition: max(each.end for each in segments if each.partition == one.partition) for one in segments}
        records = read_records(self.spark, self.topic.address, self.topic.name, starts, ends).where(within(segments))
        fate = F.when(F.col("_bad"), BAD).when(F.col("_filtered"), FILTERED).otherwise(GOOD)
        return rows_of(records, spec.stream).withColumn("_fate", fate).drop(*RAW)

    def rows(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        return self._slim(self.table().where(self.is_of(segments)), spec, F.col("_kafka_timestamp"))

    def table(self) -> DataFrame:
        """A Delta table, at the one version at which the window is judged."""
        return self.spark.read.format("delta").option("versionAsOf", self.window.snapshot).load(str(self.place))

    def is_of(self, segments: list[Segment]) -> Column:
        """By coordinates."""
        return (F.col("_topic_epoch") == self.window.epoch) & within(segments)

    def quarantined(self, groups: Iterable[Group]) -> DataFrame:
        """P7.4: bad records, which no sink gets, judged as the spec of the ledger's line judges."""
        alike = [within(one.segments) & (F.col("_spec_hash") == judging_hash(one.spec.stream)) for one in groups]
        return self._kept_aside(F.col("_sink").isNull() & reduce(or_, alike))

    def rejected(self, groups: Iterable[Group]) -> DataFrame:
        """Under the spec of the ledger's line, what a Delta sink cannot hold: PostgreSQL has its own rejects."""
        segments = [segment for group in groups for segment in group.segments]
        of_its_spec = [F.expr(_text(one)) & (F.col("_spec_hash") == one.spec_hash) for one in segments]
        return self._kept_aside((F.col("_sink") == self.window.sink) & reduce(or_, of_its_spec))

    def _kept_aside(self, which: Column) -> DataFrame:
        """Read last, as it is now."""
        there = self.spark.read.format("delta").load(self.quarantine)
        return there.where((F.col("_topic_epoch") == self.window.epoch) & which).select("_partition", "_offset")

    def key_of(self, spec: Spec, partition: int, offset: int, key: Iterable[str] = ()) -> str:
        """The key of one record, as text: the sink's, dedupe's, and the one that is declared as unique."""
        dedupe = self.stream.spec.dedupe
        names = dict.fromkeys([*key, *(dedupe.key if dedupe else []), *self.stream.spec.reconcile.unique])
        known = [name for name in names if name in spec.columns]
        if not known:
            return ""
        records = read_records(self.spark, self.topic.address, self.topic.name, {partition: offset}, {partition: offset + 1})
        found = rows_of(records, spec.stream).select(*(F.col(name).cast("string") for name in known)).first()
        return ", ".join(f"{name} {found[name]}" for name in known if found[name] is not None) if found else ""

    def _slim(self, rows: DataFrame, spec: Spec, *more: Column) -> DataFrame:
        unique = [name for name in self.stream.spec.reconcile.unique if name in spec.columns]
        key = F.xxhash64(*unique) if unique else F.lit(0).cast("bigint")
        slim = rows.select("_partition", "_offset", spec.row_hash.alias("hash"), key.alias("key"), *more)
        return slim.persist(StorageLevel.MEMORY_AND_DISK)


def copy_of(spec: Spec) -> Column:
    """What copies of a record have in common."""
    dedupe = spec.stream.spec.dedupe
    return F.struct(*(dedupe.key if dedupe else PLACE)).alias("_copy_of")


def event_micros(spec: Spec) -> Column:
    return F.unix_micros(watermark_of(spec.stream.spec).event_time).alias("_at")


def _with_late(records: DataFrame, spec: Spec) -> DataFrame:
    """Late ones are bad where they are quarantined."""
    came_late = (F.col("_fate") == GOOD) & is_late(spec.stream.spec, F.coalesce("_late_ms", F.lit(0)))
    fate = BAD if spec.stream.spec.quarantines_late else LATE
    return records.withColumn("_fate", F.when(came_late, fate).otherwise(F.col("_fate")))


def _with_duplicates(records: DataFrame, duplicates: DataFrame) -> DataFrame:
    joined = records.join(duplicates.withColumn("_again", F.lit(True)), PLACE, "left")
    return joined.withColumn("_fate", F.when(F.col("_again"), DUPLICATE).otherwise(F.col("_fate"))).drop("_again")


def within(segments: Iterable[Segment]) -> Column:
    return F.expr(" OR ".join(f"({_text(one)})" for one in segments) or "false")


def outside(segments: Iterable[Segment], others: Iterable[Segment]) -> list[Segment]:
    """What the others leave of these."""
    left = list(segments)
    for cut in others:
        left = [piece for one in left for piece in _without(one, cut)]
    return left


def _without(one: Segment, cut: Segment) -> list[Segment]:
    if one.partition != cut.partition:
        return [one]
    spans = ((one.start, min(one.end, cut.start)), (max(one.start, cut.end), one.end))
    return [one.model_copy(update={"start": start, "end": end}) for start, end in spans if start < end]


def _text(segment: Segment) -> str:
    """Of our own numbers only; so written, Delta compares it with each file's statistics."""
    return f"_partition = {segment.partition:d} AND _offset BETWEEN {segment.start:d} AND {segment.end - 1:d}"
