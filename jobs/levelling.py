"""Brings uneven sinks to one level, under the spec that made the rows of the foremost (P2), before a changed spec takes over.

Without it the same records would be rows of the old file in one sink and rows of the new file in another. A generation of its
own, one batch, no query: it ends exactly where the foremost sink ends. Only sinks that are still in the file are touched: one
that was taken out, perhaps because it is down, keeps its tidemark.
"""

from dataclasses import replace

from pyspark.sql import SparkSession

from include.checkpoints.spark_log import BatchRange
from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.fingerprint import from_snapshot
from include.contract.places import Places
from include.control.database import ControlDatabase
from include.control.generations import read_spec
from include.start_plan.approvals import Approvals
from include.start_plan.plan import StartPlan
from include.topics.topic import Topic
from jobs.batch import Delivered, Delivery
from jobs.row_shape import sink_shape
from jobs.source import read_records
from jobs.take_over import TakeOver
from jobs.transform import rows_of


class CannotLevel(StreamFailure):
    """The spec that made the foremost sink's rows is not kept any more, or does not know all sinks."""

    exit_class = ExitClass.CONFIGURATION


def still_uneven(name: str, spec_hash: str) -> CannotLevel:
    """Their notes do not say who was beside them: they are from before that was written down."""
    return CannotLevel(
        f"The sinks of {name} end at different offsets, and spec {spec_hash}, which made the rows that some lack, does not have "
        "all of them.",
        state="No record was delivered to the sink that it does not have; it keeps its tidemark.",
        next_step="Give that sink another name and table, and `from: earliest`.",
    )


def level(
    spark: SparkSession,
    stream: Stream,
    spec_hash: str,
    environment: Environment,
    control: ControlDatabase,
    topic: Topic,
    launch: str,
    approvals: Approvals,
) -> Delivered:
    """`stream`: as its file is now."""
    kept = read_spec(control, stream.name, spec_hash)
    if kept is None:
        raise CannotLevel(
            f"The sinks of {stream.name} end at different offsets; the rows that some lack were made by spec {spec_hash}, "
            "which the control database does not know.",
            state="Nothing was written.",
            next_step="Put the stream file back as it was, run it with ONCE=1, then change it.",
        )
    old = _with_sinks_of(from_snapshot(kept), stream)
    places, shape = Places.of(old, environment), sink_shape(spark, old)
    taken = TakeOver(spark, old, environment, places, control, topic, shape, kept_as=spec_hash).run(launch, approvals)
    span = _uneven(taken.plan)
    if not span.ends:  # level already, by what was lost and approved
        return Delivered(0, 0, 0, 0, 0, {})
    records = read_records(spark, topic.address, topic.name, span.starts, span.ends)
    return Delivery(old, topic, taken).deliver_range(rows_of(records, old), 0, span)


def _with_sinks_of(old: Stream, now: Stream) -> Stream:
    left = {name: sink for name, sink in old.spec.sinks.items() if name in now.spec.sinks}
    return replace(old, spec=old.spec.model_copy(update={"sinks": left}))


def _uneven(plan: StartPlan) -> BatchRange:
    """In other partitions a sink may be far behind, but lacks nothing that this spec made for it."""
    return BatchRange({number: plan.starts[number] for number in plan.uneven}, {n: plan.highest[n] for n in plan.uneven})
