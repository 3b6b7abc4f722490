"""Recounts a window of an output topic: the outputs of each source record, by the header that tells their source (P7.1)."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.places import OutputTopic
from include.contract.stream_spec import KafkaOutput
from include.control.database import ControlDatabase
from include.topics.topic import TopicState
from jobs.differences import find_differences
from jobs.kafka.output_sides import OutputSide, as_records, has_outputs, wanted_hash
from jobs.kept_rows import kept
from jobs.made_by import Group, Spec
from jobs.measuring import GOOD, PLACE, REJECTED, Sides, within
from jobs.per_partition import quarantined_per_partition, records_per_partition, rejects_per_partition, rows_per_partition
from jobs.window_counts import WindowCounts


class OutputCounting(WindowCounts):
    def __init__(self, sides: Sides, settings: KafkaOutput, place: OutputTopic, *, compacted: bool) -> None:
        super().__init__(sides, compacted=compacted)
        self._settings = settings
        self._side = OutputSide(sides.spark, place, sides.window)
        self._groups: list[Group] = []

    def count(self, group: Group) -> None:
        self._groups.append(group)

    def finish(self, state: TopicState | None, control: ControlDatabase) -> Mapping[int, str]:
        """The topic first, then Kafka, the quarantine last (P7.1). The topic is read once, whatever made its records."""
        if why := self._side.out_of_reach():
            return dict.fromkeys((one.partition for group in self._groups for one in group.segments), why)
        with kept(self._side.outputs()) as outputs, kept(self._side.rejects()) as rejects:
            self._find_strangers(outputs)
            for group in self._groups:
                self._count(group, outputs.where(self.sides.is_of(group.segments)), rejects.where(within(group.segments)))
        return {}

    def _count(self, group: Group, outputs: DataFrame, rejects: DataFrame) -> None:
        with kept(self._records(group, rejects)) as records, kept(self._rows(outputs, records)) as rows:
            self.add(
                {one.partition for one in group.segments},
                rows_per_partition(rows),
                records_per_partition(records),
                quarantined_per_partition(self.sides.quarantined([group])),
                rejects_per_partition(rejects),
            )
            good = records.where(F.col("_fate") == GOOD)
            if self.sides.stream.spec.reconcile.unique:
                self.add_keys(*(good.agg(F.count("key"), F.count_distinct("key")).first() or (0, 0)))
            self.see_time_of(good)
            self.differences += find_differences(self.sides, group.spec, group.segments, rows, records, compacted=self.compacted)

    def _records(self, group: Group, rejects: DataFrame) -> DataFrame:
        settings, spec = self._settings_of(group.spec), group.spec
        unique = [name for name in self.sides.stream.spec.reconcile.unique if name in spec.columns]
        slim = self.sides.records(spec, group.segments).select(
            *PLACE,
            "_kafka_timestamp",
            "_fate",
            wanted_hash(settings, spec).alias("hash"),
            (F.xxhash64(*unique) if unique else F.lit(0).cast("bigint")).alias("key"),
            has_outputs(settings, spec).alias("_has_outputs"),
        )
        rejected = rejects.distinct().withColumn("_rejected", F.lit(True))
        fate = F.when((F.col("_fate") == GOOD) & F.col("_rejected"), REJECTED).otherwise(F.col("_fate"))
        return slim.join(rejected, PLACE, "left").withColumn("_fate", fate).drop("_rejected")

    def _rows(self, outputs: DataFrame, records: DataFrame) -> DataFrame:
        """A record without outputs has nothing to be seen in the topic, and that is as it should be."""
        rows = as_records(outputs)
        nothing_to_see = records.where((F.col("_fate") == GOOD) & ~F.col("_has_outputs")).select(*rows.columns)
        return rows.unionByName(nothing_to_see)

    def _settings_of(self, spec: Spec) -> KafkaOutput:
        """As the file said that made them."""
        settings = spec.stream.spec.sinks.get(self.sides.window.sink)
        return settings if isinstance(settings, KafkaOutput) else self._settings

    def _find_strangers(self, outputs: DataFrame) -> None:
        """Between the window's commits there may be nothing else."""
        audited = self.sides.window.audited
        mine = self.sides.is_of(list(audited.segments) if audited else [])
        strangers = outputs.where(~F.coalesce(mine, F.lit(False)))
        found = strangers.agg(
            F.count("*").alias("n"),
            F.min(F.struct("_output_partition", "_output_offset", *PLACE)).alias("first"),
        ).first()
        if found is None or not found["n"]:
            return
        first = found["first"]
        source = f"a copy of partition {first[2]}, offset {first[3]:,}" if first[3] is not None else "without a source"
        self.findings.append(
            f"{found['n']:,} records in topic {self._settings.topic} are none of this window's outputs, the first in its "
            f"partition {first[0]} at offset {first[1]:,}, {source}"
        )
