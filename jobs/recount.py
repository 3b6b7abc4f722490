"""Recounts one window: per partition what Kafka, the table and the quarantine hold, and where they differ, which records."""

import time

from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.fingerprint import from_snapshot, spec_hash
from include.contract.stream_spec import DeltaAppend, PostgresTotals
from include.control.database import ControlDatabase
from include.control.generations import read_spec
from include.control.window_contents import Counted, Difference, Measured, Segment
from include.tidemarks.sink_state import read_sink
from include.topics.topic import TopicMissing, TopicState
from jobs.differences import find_differences, is_even
from jobs.lost_files import lost_files
from jobs.measuring import Group, Sides, Spec
from jobs.per_partition import add_up, quarantined_per_partition, records_per_partition, rows_per_partition
from jobs.postgres.recount import KeyedCounting
from jobs.postgres.recount_totals import TotalsCounting

GONE = "its topic is gone: Kafka has nothing of epoch {epoch} any more"
EXPIRED = "Kafka begins at {earliest:,}, the window at {start:,}"
UNKNOWN_SPEC = "spec {spec_hash}, which made its rows, is not kept"


def recount(sides: Sides, control: ControlDatabase) -> Measured:
    audited = sides.window.audited
    segments = list(audited.segments) if audited else []
    state = _state(sides)
    not_recounted = _out_of_reach(sides, state, segments)
    groups, unknown = _groups(sides, control, [one for one in segments if one.partition not in not_recounted])
    not_recounted |= unknown
    compacted = sides.topic.is_compacted() if state else False
    counting = _counting(sides, compacted)
    for group in groups:
        if within_reach := [one for one in group.segments if one.partition not in not_recounted]:
            counting.count(Group(group.spec, within_reach))
    if isinstance(counting, TotalsCounting):
        not_recounted |= counting.count_all(state, control)
    return Measured(
        counted=counting.counted,
        not_recounted=not_recounted,
        compacted=compacted,
        keys=counting.keys,
        distinct_keys=counting.distinct_keys,
        waiting=_waiting(sides, state),
        newest_ms=counting.newest_ms,
        measured_ms=int(time.time() * 1000),
        differences=tuple(counting.differences),
        findings=tuple(counting.findings),
    )


def _counting(sides: Sides, compacted: bool) -> "_DeltaCounting | KeyedCounting | TotalsCounting":
    settings = sides.stream.spec.sinks[sides.window.sink]
    if isinstance(settings, DeltaAppend):
        return _DeltaCounting(sides, compacted)
    if isinstance(settings, PostgresTotals):
        return TotalsCounting(sides, settings, compacted=compacted)
    return KeyedCounting(sides, settings, compacted=compacted)


class _DeltaCounting:
    def __init__(self, sides: Sides, compacted: bool) -> None:
        self._sides = sides
        self._compacted = compacted
        self.counted: dict[int, Counted] = {}
        self.differences: list[Difference] = []
        self.findings: list[str] = []
        self.keys = 0
        self.distinct_keys = 0
        self.newest_ms: int | None = None

    def count(self, group: Group) -> None:
        """The table first, then Kafka, the quarantine last (P7.1)."""
        rows = self._sides.rows(group.spec, group.segments)
        records = self._sides.kafka(group.spec, group.segments)
        try:
            self._count(group, rows, records)
        except (PySparkException, Py4JJavaError) as error:
            lost = lost_files(DeltaTable(str(self._sides.place), version=self._sides.window.snapshot))
            if not lost:
                raise
            self.findings += lost
            print(f"the table cannot be read: {str(error).splitlines()[0]}")
        finally:
            rows.unpersist()
            records.unpersist()

    def _count(self, group: Group, rows: DataFrame, records: DataFrame) -> None:
        of_table, of_kafka = rows_per_partition(rows), records_per_partition(records)
        of_quarantine = quarantined_per_partition(self._sides.quarantined(group.segments))
        for number in {one.partition for one in group.segments}:
            found = {**of_table.get(number, {}), **of_kafka.get(number, {}), **of_quarantine.get(number, {})}
            self.counted[number] = add_up(self.counted.get(number, Counted()), Counted.model_validate(found))
        self._count_keys(rows)
        uneven = {number for number, one in self.counted.items() if self._compacted or not is_even(one)}
        if of_group := [one for one in group.segments if one.partition in uneven]:
            self.differences += find_differences(self._sides, group.spec, of_group, rows, records, compacted=self._compacted)

    def _count_keys(self, rows: DataFrame) -> None:
        newest_row = F.max(F.unix_millis("_kafka_timestamp"))
        keys, distinct, newest = rows.agg(F.count("key"), F.count_distinct("key"), newest_row).first() or (0, 0, None)
        if self._sides.stream.spec.reconcile.unique:
            self.keys += keys
            self.distinct_keys += distinct
        self.newest_ms = max((one for one in (self.newest_ms, newest) if one is not None), default=None)


def _state(sides: Sides) -> TopicState | None:
    try:
        return sides.topic.state()
    except TopicMissing:
        return None


def _out_of_reach(sides: Sides, state: TopicState | None, segments: list[Segment]) -> dict[int, str]:
    found: dict[int, str] = {}
    for one in segments:
        if state is None or state.topic_id != sides.window.topic_id:
            found[one.partition] = GONE.format(epoch=sides.window.epoch)
        elif (earliest := state.earliest.get(one.partition, 0)) > one.start:
            found.setdefault(one.partition, EXPIRED.format(earliest=earliest, start=one.start))
    return found


def _groups(sides: Sides, control: ControlDatabase, segments: list[Segment]) -> tuple[list[Group], dict[int, str]]:
    groups: list[Group] = []
    unknown: dict[int, str] = {}
    for wanted in sorted({one.spec_hash for one in segments}):
        mine = [one for one in segments if one.spec_hash == wanted]
        kept = read_spec(control, sides.stream.name, wanted)
        if kept is not None:
            groups.append(Group(Spec(sides.spark, from_snapshot(kept)), mine))
        elif wanted in ("", spec_hash(sides.stream)):
            groups.append(Group(Spec(sides.spark, sides.stream), mine))
        else:
            unknown |= {one.partition: UNKNOWN_SPEC.format(spec_hash=wanted) for one in mine}
    return groups, unknown


def _waiting(sides: Sides, state: TopicState | None) -> int:
    mark = read_sink(sides.place, sides.stream.name, sides.window.sink).tidemark
    if state is None or mark is None or mark.topic_id != state.topic_id:
        return 0
    return sum(max(0, end - mark.next_offset(number)) for number, end in state.stable.items())
