"""Where a stream's tables and checkpoints lie."""

from dataclasses import dataclass
from pathlib import Path

from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import quarantine_table
from include.contract.stream_spec import PUBLIC, KafkaOutput, LakeTable, Sink


class NoObjectStoreYet(StreamFailure):
    """Exactly once needs a log whose files cannot be overwritten (P4)."""

    exit_class = ExitClass.CONFIGURATION


@dataclass(frozen=True)
class DatabaseTable:
    """A table in a database, by the id of a connection."""

    connection: str
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name} of {self.connection}"


@dataclass(frozen=True)
class OutputTopic:
    """A topic that a sink writes, by the id of a connection."""

    connection: str
    topic: str

    def __str__(self) -> str:
        return f"topic {self.topic} of {self.connection}"


Place = str | DatabaseTable | OutputTopic  # a Delta table is its path


@dataclass(frozen=True)
class Places:
    sinks: dict[str, Place]
    quarantine: str
    checkpoints: Path  # a folder per generation
    backups: Path  # of these, of a stateful stream

    @classmethod
    def of(cls, stream: Stream, environment: Environment) -> "Places":
        if "://" in environment.lake:
            raise NoObjectStoreYet(
                f"The lake is {environment.lake}, but that an object store keeps two drivers apart is not shown yet.",
                state="Nothing was started.",
                next_step="Use a lake on a file system.",
            )
        sinks = {name: _place(sink, environment) for name, sink in sorted(stream.spec.sinks.items())}
        return cls(
            sinks,
            environment.lake_path(quarantine_table(stream.name)),
            environment.checkpoint_path(stream.name),
            environment.backup_path(stream.name),
        )


def _place(sink: Sink, environment: Environment) -> Place:
    if isinstance(sink, LakeTable):
        return environment.lake_path(sink.table)
    if isinstance(sink, KafkaOutput):
        return OutputTopic(sink.connection, sink.topic)
    schema, _, name = sink.table.rpartition(".")
    return DatabaseTable(sink.connection, schema or PUBLIC, name)
