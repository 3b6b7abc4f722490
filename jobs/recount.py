"""Recounts one window: per partition what Kafka, the table and the quarantine hold, and where they differ, which records."""

import time
from contextlib import ExitStack
from dataclasses import replace

from include.contract.places import OutputTopic
from include.contract.stream_spec import DeltaAppend, DeltaMerge, KafkaOutput, PostgresTotals
from include.control.database import ControlDatabase
from include.control.window_contents import Measured, Segment
from include.tidemarks.sink_state import read_sink
from include.topics.topic import TopicMissing, TopicState
from jobs.chosen_copies import choose_copies
from jobs.kafka.recount import OutputCounting
from jobs.known_batches import batches_of
from jobs.made_by import OTHER_STATE, Group, as_made, find_groups
from jobs.measuring import Sides
from jobs.postgres.recount import KeyedCounting
from jobs.postgres.recount_totals import TotalsCounting
from jobs.recount_append import AppendCounting
from jobs.recount_merge import MergeCounting
from jobs.recount_stateful import out_of_reach_of_state, stateful_counts
from jobs.window_counts import WindowCounts

GONE = "its topic is gone: Kafka has nothing of epoch {epoch} any more"
EXPIRED = "Kafka begins at {earliest:,}, the window at {start:,}"


def recount(sides: Sides, control: ControlDatabase) -> Measured:
    audited = sides.window.audited
    segments = list(audited.segments) if audited else []
    state = _state(sides)
    compacted = sides.topic.is_compacted() if state else False
    not_recounted = _out_of_reach(sides, state, segments)
    known = [one for one in segments if one.partition not in not_recounted]
    groups, unknown = find_groups(sides.spark, control, sides.stream, known)
    sides, not_recounted = _as_its_state(sides, groups, segments, not_recounted | unknown, compacted=compacted)
    with ExitStack() as until:
        copies = choose_copies(sides, _without(groups, not_recounted), state, control, until)
        not_recounted |= copies.not_judged
        counts = _counts(copies.sides, compacted=compacted)
        for group in _without(groups, not_recounted):
            counts.count(group)
        not_recounted |= counts.finish(state, control)
    return Measured(
        counted=counts.counted,
        not_recounted=not_recounted,
        compacted=compacted,
        keys=counts.keys,
        distinct_keys=counts.distinct_keys,
        duplicates=counts.duplicates if copies.duplicates is None else copies.in_partitions(counts.counted),
        waiting=_waiting(sides, state),
        newest_ms=counts.newest_ms,
        measured_ms=int(time.time() * 1000),
        differences=tuple(counts.differences),
        findings=tuple(counts.findings),
    )


def _as_its_state(
    sides: Sides, groups: list[Group], segments: list[Segment], not_recounted: dict[int, str], *, compacted: bool
) -> tuple[Sides, dict[int, str]]:
    """By the dedupe and the windows by which the records were judged, which the file of today may have changed."""
    stream = as_made(sides.stream, groups)
    if stream is None:
        return sides, {one.partition: OTHER_STATE for one in segments}
    sides = replace(sides, stream=stream)
    if not stream.spec.is_stateful:
        return sides, not_recounted
    known = batches_of(sides.place, sides.window)
    return replace(sides, known=known), out_of_reach_of_state(segments, not_recounted, compacted=compacted)


def _without(groups: list[Group], not_recounted: dict[int, str]) -> list[Group]:
    left = [Group(one.spec, [each for each in one.segments if each.partition not in not_recounted]) for one in groups]
    return [one for one in left if one.segments]


def _counts(sides: Sides, *, compacted: bool) -> WindowCounts:
    if sides.stream.spec.is_stateful and (counts := stateful_counts(sides)):
        return counts
    match sides.stream.spec.sinks[sides.window.sink]:
        case DeltaAppend():
            return AppendCounting(sides, compacted=compacted)
        case DeltaMerge() as settings:
            return MergeCounting(sides, settings, compacted=compacted)
        case PostgresTotals() as settings:
            return TotalsCounting(sides, settings, compacted=compacted)
        case KafkaOutput() as settings if isinstance(sides.place, OutputTopic):
            return OutputCounting(sides, settings, sides.place, compacted=compacted)
        case KafkaOutput():
            raise ValueError(f"{sides.place} is no topic")
        case settings:
            return KeyedCounting(sides, settings, compacted=compacted)


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


def _waiting(sides: Sides, state: TopicState | None) -> int:
    mark = read_sink(sides.place, sides.stream.name, sides.window.sink).tidemark
    if state is None or mark is None or mark.topic_id != state.topic_id:
        return 0
    return sum(max(0, end - mark.next_offset(number)) for number, end in state.stable.items())
