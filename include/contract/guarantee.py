"""What a stream promises, derived from its file, with the reasons. What cannot be promised is refused at load."""

from dataclasses import dataclass

from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.stream_spec import DeltaMerge, KafkaOutput, LakeTable, Sink


@dataclass(frozen=True)
class Guarantee:
    sink: str
    promise: str
    reasons: tuple[str, ...]


def guarantees(stream: Stream, environment: Environment) -> list[Guarantee]:
    return [_guarantee(sink, settings, environment) for sink, settings in stream.spec.sinks.items()]


def _guarantee(sink: str, settings: Sink, environment: Environment) -> Guarantee:
    if "://" in environment.lake:
        return Guarantee(sink, "none: refused at start", (f"that {environment.lake} keeps two drivers apart is not shown (P4)",))
    return Guarantee(
        sink,
        "exactly once",
        (
            _commits_together(settings),
            "expressions look at one row and give the same answer on replay, so a replayed batch is the same batch",
            "records that cannot be decoded are quarantined before the commit, never dropped (P3.3)",
        ),
    )


def _commits_together(settings: Sink) -> str:
    if isinstance(settings, LakeTable):
        rows = "the newest row of each key" if isinstance(settings, DeltaMerge) else "rows"
        return f"{rows}, tidemark and ledger become visible in one Delta commit of {settings.table} (P4)"
    if isinstance(settings, KafkaOutput):
        return f"outputs, rejects and marks become visible in one transaction per slot of {settings.connection} (P5)"
    what = {
        "postgres_insert_new": "the first row of each key",
        "postgres_upsert": "the newest row of each key",
        "postgres_totals": "totals, each record added once",
    }[settings.kind]
    return f"{what}, rejects, tidemark and ledger become visible in one transaction of {settings.connection} (P5)"
