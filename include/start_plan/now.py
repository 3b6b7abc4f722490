"""The start plan of a stream as things are at this moment: for `make plan`, the runbooks and whoever asks without Spark."""

from include.contract.catalog import Stream
from include.contract.connections import read_connection
from include.contract.environment import Environment
from include.contract.fingerprint import spec_hash
from include.contract.places import Places
from include.control.database import ControlDatabase
from include.start_plan.approvals import Approvals
from include.start_plan.plan import StartPlan, plan_start
from include.start_plan.state_plan import needs_of
from include.start_plan.world import World, read_world
from include.topics.topic import Topic


def plan_now(stream: Stream, environment: Environment, control: ControlDatabase, approvals: Approvals) -> tuple[World, StartPlan]:
    """By the same function as the driver's, which plans again when it has fenced the sinks."""
    source = stream.spec.source
    topic = Topic(read_connection(source.connection).address, source.topic)
    world = read_world(stream, Places.of(stream, environment), control, topic, approvals.state)
    needs = needs_of(stream, environment)
    return world, plan_start(world, source.start, approvals, spec_hash(stream), stream.spec.begins, needs)
