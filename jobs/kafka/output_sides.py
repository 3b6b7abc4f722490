"""The output side of a window: what readers of committed records see in the topic, as one row for each source record and copy."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from include.contract.connections import read_connection
from include.contract.identity import rejects_topic, tidemarks_topic
from include.contract.places import OutputTopic
from include.contract.stream_spec import KafkaOutput
from include.control.windows import Window
from include.tidemarks.kafka_log import log_in
from include.topics.topic import Topic
from jobs.kafka.outputs import outputs_of
from jobs.kafka.sending import SOURCE
from jobs.made_by import Spec
from jobs.measuring import PLACE
from jobs.source import read_records

EXPIRED = "{topic} begins partition {partition} at {earliest:,}, the window's outputs at {start:,}"
FORGOTTEN = "commit {version}, behind which the window begins, is compacted away in {topic}: reconcile more often"
COMPACTED = "{topic} is compacted: later outputs of a key have replaced earlier ones"
REJECT = "epoch int, partition int, offset bigint"
Span = tuple[dict[int, int], dict[int, int]]  # starts and ends by partition of the output


@dataclass(frozen=True)
class OutputSide:
    spark: SparkSession
    place: OutputTopic
    window: Window

    def out_of_reach(self) -> str | None:
        """Why the topic can no longer tell what was written to it."""
        topic, log = Topic(self._address, self.place.topic), log_in(self.place)
        if topic.is_compacted():
            return COMPACTED.format(topic=self.place.topic)
        if self.window.after_version >= 0 and not log.has(self.window.after_version):
            return FORGOTTEN.format(version=self.window.after_version, topic=tidemarks_topic(self.place.topic))
        earliest = topic.state().earliest
        starts, ends = self._span("output_ends")
        gone = [number for number in ends if earliest.get(number, 0) > starts[number] and starts[number] < ends[number]]
        where = {"partition": gone[0], "earliest": earliest[gone[0]], "start": starts[gone[0]]} if gone else {}
        return EXPIRED.format(topic=self.place.topic, **where) if gone else None

    def outputs(self) -> DataFrame:
        """Each output between the window's first and last commit, with the place that it tells of: NULL where it tells none."""
        said = F.expr(f"element_at(filter(_headers, header -> header.key = '{SOURCE}'), 1).value").cast("string")
        part = F.split(said, "/")
        return self._read(self.place.topic, "output_ends").select(
            F.col("_partition").alias("_output_partition"),
            F.col("_offset").alias("_output_offset"),
            F.try_element_at(part, F.lit(1)).try_cast("int").alias("_topic_epoch"),
            F.try_element_at(part, F.lit(2)).try_cast("int").alias("_partition"),
            F.try_element_at(part, F.lit(3)).try_cast("bigint").alias("_offset"),
            F.try_element_at(part, F.lit(4)).try_cast("int").alias("_number"),
            F.xxhash64("_key", "value").alias("_output_hash"),
            "_kafka_timestamp",
        )

    def rejects(self) -> DataFrame:
        told = F.from_json(F.col("value").cast("string"), REJECT)
        rows = self._read(rejects_topic(self.place.topic), "rejects_ends").select(told.alias("told"))
        return rows.where(F.col("told.epoch") == self.window.epoch).select(
            F.col("told.partition").alias("_partition"), F.col("told.offset").alias("_offset")
        )

    def _read(self, topic: str, ends_of: str) -> DataFrame:
        starts, ends = self._span(ends_of)
        return read_records(self.spark, self._address, topic, starts, ends)

    def _span(self, which: str) -> Span:
        """By the log: no output of a commit lies behind the ends that it tells."""
        log = log_in(self.place)
        ends = _offsets(log.commit(self.window.up_to_version).parameters[which])
        before = log.commit(self.window.after_version).parameters[which] if self.window.after_version >= 0 else {}
        return {number: _offsets(before).get(number, 0) for number in ends}, ends

    @property
    def _address(self) -> str:
        return read_connection(self.place.connection).address


def _offsets(told: Mapping[int, int]) -> dict[int, int]:
    return {int(number): int(offset) for number, offset in told.items()}


def as_records(outputs: DataFrame) -> DataFrame:
    """One row for each record, and one more for each time that an output of it is there again."""
    each = outputs.groupBy(*PLACE, "_number").agg(
        F.count("*").alias("_copies"), F.min("_output_hash").alias("_hash"), F.max("_kafka_timestamp").alias("_kafka_timestamp")
    )
    all_of_it = F.array_sort(F.collect_list(F.struct("_number", "_hash")))
    records = each.groupBy(*PLACE).agg(
        F.max("_copies").alias("_copies"),
        F.xxhash64(all_of_it).alias("hash"),
        F.max("_kafka_timestamp").alias("_kafka_timestamp"),
    )
    return records.select(*PLACE, "hash", "_kafka_timestamp", F.explode(F.sequence(F.lit(1), "_copies"))).drop("col")


def wanted_hash(settings: KafkaOutput, spec: Spec) -> Column:
    """Of the outputs that a record should have, made as `as_records` makes it of those that are there."""
    numbered = F.transform(
        outputs_of(settings, spec.columns),
        lambda output, number: F.struct(
            number.cast("int").alias("_number"), F.xxhash64(output["key"], output["value"]).alias("_hash")
        ),
    )
    return F.xxhash64(numbered)


def has_outputs(settings: KafkaOutput, spec: Spec) -> Column:
    return F.size(outputs_of(settings, spec.columns)) > 0
