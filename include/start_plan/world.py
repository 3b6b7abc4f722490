"""What a start plan is made from: Kafka, the quarantine and every sink side by side. Reads only, without Spark."""

from dataclasses import dataclass

from include.contract.catalog import Stream
from include.contract.identity import QUARANTINE
from include.contract.places import Places
from include.control.database import ControlDatabase
from include.control.generations import knows_sink
from include.start_plan.approvals import TakeState
from include.start_plan.state_seen import StateSeen, read_state
from include.tidemarks.sink_failure import at_sink
from include.tidemarks.sink_state import SinkState, TidemarkLost, read_sink
from include.topics.topic import Topic, TopicState


@dataclass(frozen=True)
class World:
    topic: TopicState
    quarantine: SinkState
    sinks: dict[str, SinkState]
    state: StateSeen | None = None  # of a stateful stream

    @property
    def highest_generation(self) -> int:
        return max(state.generation for state in (self.quarantine, *self.sinks.values()))


def read_world(
    stream: Stream, places: Places, control: ControlDatabase, topic: Topic, take_state: TakeState | None = "continue"
) -> World:
    """Touches nothing: a table that is not ours is refused before it is fenced (P1.5). `take_state`: None to leave it out."""
    tables = {QUARANTINE: places.quarantine, **places.sinks}
    states = {}
    for name, table in tables.items():
        with at_sink(stream.name, name, table):
            states[name] = read_sink(table, stream.name, name)
    for name, state in states.items():
        if state.note is None and knows_sink(control, stream.name, name):
            raise TidemarkLost(
                f"The control database knows batches of {stream.name}.{name}, but {tables[name]} holds no tidemark.",
                state="Nothing was written.",
                next_step="Bring the table back; or, if it was thrown away on purpose, give the sink another name.",
            )
    quarantine = states.pop(QUARANTINE)
    seen = read_state(stream, places, states, take_state) if take_state else None
    return World(topic.state(), quarantine, states, seen)
