"""How stateful streams are counted again, by the kind of sink: rows out of dedupe, totals of them, and results of windows."""

from collections.abc import Iterable

from include.contract.places import DatabaseTable
from include.contract.stream_spec import Aggregate, DeltaAppend, PostgresTotals, PostgresUpsert
from include.control.window_contents import Segment
from jobs.delta_results import DeltaResults
from jobs.measuring import Sides
from jobs.postgres.postgres_results import PostgresResults
from jobs.postgres.recount_deduped_totals import DedupedTotalsCounting
from jobs.recount_deduped import DedupedCounting
from jobs.recount_windows import ResultCounting, ResultTable
from jobs.window_counts import WindowCounts

COMPACTED = "the topic is compacted: Kafka does not have every record of which the state was made"
ELSEWHERE = "copies of its records may lie in partition {partition}, which cannot be counted again"


def stateful_counts(sides: Sides) -> WindowCounts | None:
    """None for rows that are counted like those of a stateless stream, once it is known which records are duplicates."""
    spec, settings = sides.stream.spec, sides.stream.spec.sinks[sides.window.sink]
    if spec.aggregate is not None:
        return ResultCounting(sides, spec.aggregate, _results(sides, spec.aggregate))
    if spec.dedupe is None:
        return None
    match settings:
        case DeltaAppend():
            return DedupedCounting(sides, spec.dedupe)
        case PostgresTotals():
            return DedupedTotalsCounting(sides, settings, spec.dedupe)
    return None


def _results(sides: Sides, aggregate: Aggregate) -> ResultTable:
    settings, place = sides.stream.spec.sinks[sides.window.sink], sides.place
    if isinstance(settings, PostgresUpsert) and isinstance(place, DatabaseTable):
        return PostgresResults(sides, aggregate, settings, place)
    return DeltaResults(sides, aggregate)


def out_of_reach_of_state(segments: Iterable[Segment], out_of_reach: dict[int, str], *, compacted: bool) -> dict[int, str]:
    """Where one partition cannot be told of, none can: copies of a record lie anywhere."""
    if compacted:
        return {one.partition: COMPACTED for one in segments}
    if not out_of_reach:
        return {}
    elsewhere = ELSEWHERE.format(partition=min(out_of_reach))
    return {one.partition: out_of_reach.get(one.partition, elsewhere) for one in segments}
