"""Which stateful streams can be counted again, and how: by the kind of sink, rows out of dedupe and results of windows."""

from collections.abc import Iterable

from include.contract.stream_spec import DeltaAppend, DeltaMerge, PostgresTotals
from include.control.window_contents import Segment
from jobs.measuring import Sides
from jobs.postgres.recount_deduped_totals import DedupedTotalsCounting
from jobs.recount_deduped import DedupedCounting
from jobs.recount_windows import ResultCounting
from jobs.result_sides import DeltaResults
from jobs.window_counts import WindowCounts

COMPACTED = "the topic is compacted: Kafka does not have every record of which the state was made"
NO_RECOUNT = "{what} in a sink of kind {kind} cannot be counted again: only the ledger tells of them"
ELSEWHERE = "copies of its records may lie in partition {partition}, of which Kafka cannot tell"


def stateful_counts(sides: Sides) -> WindowCounts | None:
    """None for a kind that nobody can count again yet."""
    spec, settings = sides.stream.spec, sides.stream.spec.sinks[sides.window.sink]
    if spec.aggregate is not None:
        there = DeltaResults(sides, spec.aggregate) if isinstance(settings, DeltaMerge) else None
        return ResultCounting(sides, spec.aggregate, there) if there else None
    if spec.dedupe is None:
        return None
    match settings:
        case DeltaAppend():
            return DedupedCounting(sides, spec.dedupe)
        case PostgresTotals():
            return DedupedTotalsCounting(sides, settings, spec.dedupe)
    return None


def why_not_counted(sides: Sides, *, compacted: bool) -> str | None:
    settings = sides.stream.spec.sinks[sides.window.sink]
    if compacted:
        return COMPACTED
    if stateful_counts(sides) is None:
        what = "results of windows" if sides.stream.spec.aggregate else "rows out of dedupe"
        return NO_RECOUNT.format(what=what, kind=settings.kind)
    return None


def for_all(segments: Iterable[Segment], out_of_reach: dict[int, str]) -> dict[int, str]:
    """Where one partition cannot be told of, none can: copies of a record lie anywhere."""
    if not out_of_reach:
        return {}
    elsewhere = ELSEWHERE.format(partition=min(out_of_reach))
    return {one.partition: out_of_reach.get(one.partition, elsewhere) for one in segments}
