"""Brings uneven sinks to one level, under the spec that made the rows of the foremost (P2), before a changed spec takes over.

Without it the same records would be rows of the old file in one sink and rows of the new file in another. A generation of its
own, one batch, no query: it ends exactly where the foremost sink ends.
"""

from pyspark.sql import SparkSession

from include.checkpoints.spark_log import BatchRange
from include.contract.environment import Environment
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.fingerprint import from_snapshot
from include.contract.places import Places
from include.control.database import ControlDatabase
from include.control.generations import read_spec
from include.start_plan.approvals import Approvals
from include.topics.topic import Topic
from jobs.batch import Delivered, Delivery
from jobs.row_shape import row_shape
from jobs.source import read_records
from jobs.take_over import TakeOver
from jobs.transform import rows_of


class CannotLevel(StreamFailure):
    """The spec that made the foremost sink's rows is not kept any more, or does not know all sinks."""

    exit_class = ExitClass.CONFIGURATION


def still_uneven(name: str, spec_hash: str) -> CannotLevel:
    """A sink that was taken out of the file and put back."""
    return CannotLevel(
        f"The sinks of {name} end at different offsets, and spec {spec_hash}, which made the rows that some lack, does not have "
        "all of them.",
        state="No record was delivered to the sink that was put back; it keeps its tidemark.",
        next_step="Give that sink a stream file of its own.",
    )


def level(
    spark: SparkSession,
    name: str,
    spec_hash: str,
    environment: Environment,
    control: ControlDatabase,
    topic: Topic,
    launch: str,
    approvals: Approvals,
) -> Delivered:
    kept = read_spec(control, name, spec_hash)
    if kept is None:
        raise CannotLevel(
            f"The sinks of {name} end at different offsets; the rows that some lack were made by spec {spec_hash}, "
            "which the control database does not know.",
            state="Nothing was written.",
            next_step="Put the stream file back as it was, run it with ONCE=1, then change it.",
        )
    stream = from_snapshot(kept)
    places, shape = Places.of(stream, environment), row_shape(spark, stream)
    taken = TakeOver(spark, stream, environment, places, control, topic, shape).run(launch, approvals)
    span = BatchRange(taken.plan.starts, taken.plan.highest)
    records = read_records(spark, topic.address, topic.name, span.starts, span.ends)
    return Delivery(stream, topic, taken).deliver_range(rows_of(records, stream), 0, span)
