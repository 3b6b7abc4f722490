"""What a start plan is made from: Kafka, the quarantine and every sink side by side. Reads only, without Spark."""

from dataclasses import dataclass

from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import QUARANTINE, quarantine_table
from include.control.database import ControlDatabase
from include.control.generations import knows_sink
from include.tidemarks.delta_sink import SinkState, TidemarkLost, read_sink
from include.topics.topic import Topic, TopicState


class NoObjectStoreYet(StreamFailure):
    """Exactly once needs a log whose files cannot be overwritten (P4)."""

    exit_class = ExitClass.CONFIGURATION


@dataclass(frozen=True)
class Places:
    """Where a stream's tables lie."""

    sinks: dict[str, str]
    quarantine: str

    @classmethod
    def of(cls, stream: Stream, environment: Environment) -> "Places":
        if "://" in environment.lake:
            raise NoObjectStoreYet(
                f"The lake is {environment.lake}, but that an object store keeps two drivers apart is not shown yet.",
                state="Nothing was started.",
                next_step="Use a lake on a file system.",
            )
        sinks = {name: environment.lake_path(sink.table) for name, sink in sorted(stream.spec.sinks.items())}
        return cls(sinks, environment.lake_path(quarantine_table(stream.name)))


@dataclass(frozen=True)
class World:
    topic: TopicState
    quarantine: SinkState
    sinks: dict[str, SinkState]

    @property
    def highest_generation(self) -> int:
        return max(state.generation for state in (self.quarantine, *self.sinks.values()))


def read_world(stream: Stream, places: Places, control: ControlDatabase, topic: Topic) -> World:
    """Touches nothing: a table that is not ours is refused before it is fenced (P1.5)."""
    tables = {QUARANTINE: places.quarantine, **places.sinks}
    states = {name: read_sink(table, stream.name, name) for name, table in tables.items()}
    for name, state in states.items():
        if state.note is None and knows_sink(control, stream.name, name):
            raise TidemarkLost(
                f"The control database knows batches of {stream.name}.{name}, but {tables[name]} holds no tidemark.",
                state="Nothing was written.",
                next_step="Bring the table back; or, if it was thrown away on purpose, give the sink another name.",
            )
    quarantine = states.pop(QUARANTINE)
    return World(topic.state(), quarantine, states)
