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
from pyspark.sql.types import MapType, StructType

from include.contract.catalog import Stream
from include.contract.places import Place
from include.control.window_contents import Segment
from include.control.windows import Window
from include.topics.topic import Topic
from jobs.row_shape import row_shape
from jobs.source import read_records
from jobs.transform import RAW, rows_of

GOOD, BAD, FILTERED = "good", "bad", "filtered"


class Spec:
    """What made rows of records: a stream file as it was, and the columns that Spark makes by it, analysed once."""

    def __init__(self, spark: SparkSession, stream: Stream) -> None:
        self.stream = stream
        self.shape = row_shape(spark, stream)
        self.columns = [field.name for field in self.shape if not field.name.startswith("_")]
        self.row_hash = _row_hash(self.shape)


@dataclass(frozen=True)
class Group:
    """Segments that one spec made into rows."""

    spec: Spec
    segments: list[Segment]


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

    def kafka(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        return self._slim(self.records(spec, segments), spec, F.col("fate"))

    def records(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        """Every record with its fate, made into a row by the spec that the ledger names: each segment says which."""
        if self.kept is None:
            return self._read(spec, segments)
        return self.kept.get(tuple(segments), lambda: self._read(spec, segments))

    def _read(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        starts = {one.partition: min(each.start for each in segments if each.partition == one.partition) for one in segments}
        ends = {one.partition: max(each.end for each in segments if each.partition == one.partition) for one in segments}
        records = read_records(self.spark, self.topic.address, self.topic.name, starts, ends).where(within(segments))
        fate = F.when(F.col("_bad"), BAD).when(F.col("_filtered"), FILTERED).otherwise(GOOD)
        return rows_of(records, spec.stream).withColumn("fate", fate).drop(*RAW)

    def rows(self, spec: Spec, segments: list[Segment]) -> DataFrame:
        there = self.spark.read.format("delta").option("versionAsOf", self.window.snapshot).load(str(self.place))
        return self._slim(there.where(self._of_epoch(segments)), spec, F.col("_kafka_timestamp"))

    def quarantined(self, segments: list[Segment]) -> DataFrame:
        """P7.4: those that were quarantined under the spec of the ledger's line. Read last, as it is now."""
        there = self.spark.read.format("delta").load(self.quarantine)
        under_its_spec = reduce(or_, [F.expr(_text(one)) & (F.col("_spec_hash") == one.spec_hash) for one in segments])
        return there.where((F.col("_topic_epoch") == self.window.epoch) & under_its_spec).select("_partition", "_offset")

    def key_of(self, spec: Spec, partition: int, offset: int, key: Iterable[str] = ()) -> str:
        """The key of one record, as text: the sink's and the one that is declared as unique."""
        names = dict.fromkeys([*key, *self.stream.spec.reconcile.unique])
        known = [name for name in names if name in spec.columns]
        if not known:
            return ""
        records = read_records(self.spark, self.topic.address, self.topic.name, {partition: offset}, {partition: offset + 1})
        found = rows_of(records, spec.stream).select(*(F.col(name).cast("string") for name in known)).first()
        return ", ".join(f"{name} {found[name]}" for name in known if found[name] is not None) if found else ""

    def _of_epoch(self, segments: list[Segment]) -> Column:
        return (F.col("_topic_epoch") == self.window.epoch) & within(segments)

    def _slim(self, rows: DataFrame, spec: Spec, *more: Column) -> DataFrame:
        unique = [name for name in self.stream.spec.reconcile.unique if name in spec.columns]
        key = F.xxhash64(*unique) if unique else F.lit(0).cast("bigint")
        slim = rows.select("_partition", "_offset", spec.row_hash.alias("hash"), key.alias("key"), *more)
        return slim.persist(StorageLevel.MEMORY_AND_DISK)


def _row_hash(shape: StructType) -> Column:
    """Of the coordinates, the time and every column of the stream. Spark hashes no map, so a map goes in as text."""
    columns = [
        F.to_json(F.col(field.name)) if isinstance(field.dataType, MapType) else F.col(field.name)
        for field in shape
        if not field.name.startswith("_")
    ]
    return F.xxhash64("_partition", "_offset", "_kafka_timestamp", *columns)


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
