"""Where a stream's tables lie."""

from dataclasses import dataclass

from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import quarantine_table


class NoObjectStoreYet(StreamFailure):
    """Exactly once needs a log whose files cannot be overwritten (P4)."""

    exit_class = ExitClass.CONFIGURATION


@dataclass(frozen=True)
class Places:
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
