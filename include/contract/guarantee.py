"""What a stream promises, derived from its file, with the reasons. What cannot be promised is refused at load."""

from dataclasses import dataclass

from include.contract.catalog import Stream
from include.contract.environment import Environment


@dataclass(frozen=True)
class Guarantee:
    sink: str
    promise: str
    reasons: tuple[str, ...]


def guarantees(stream: Stream, environment: Environment) -> list[Guarantee]:
    return [_delta_append(stream, sink, environment) for sink in stream.spec.sinks]


def _delta_append(stream: Stream, sink: str, environment: Environment) -> Guarantee:
    settings = stream.spec.sinks[sink]
    if "://" in environment.lake:
        return Guarantee(sink, "none: refused at start", (f"that {environment.lake} keeps two drivers apart is not shown (P4)",))
    reasons = (
        f"rows, tidemark and ledger become visible in one Delta commit of {settings.table} (P4)",
        "expressions look at one row and give the same answer on replay, so a replayed batch is the same batch",
        "records that cannot be decoded are quarantined before the commit, never dropped (P3.3)",
    )
    return Guarantee(sink, "exactly once", reasons)
