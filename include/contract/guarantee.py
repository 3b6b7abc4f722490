"""What a stream promises, derived from its file, with the reasons. What cannot be promised is refused at load."""

from dataclasses import dataclass

from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.quantities import in_words
from include.contract.stream_spec import DeltaMerge, KafkaOutput, LakeTable, Sink, StreamSpec

OF_RESULTS = "the newest values of each key and window"


@dataclass(frozen=True)
class Guarantee:
    sink: str
    promise: str
    reasons: tuple[str, ...]


def guarantees(stream: Stream, environment: Environment) -> list[Guarantee]:
    return [_guarantee(sink, settings, stream.spec, environment) for sink, settings in stream.spec.sinks.items()]


def _guarantee(sink: str, settings: Sink, spec: StreamSpec, environment: Environment) -> Guarantee:
    if "://" in environment.lake:
        return Guarantee(sink, "none: refused at start", (f"that {environment.lake} keeps two drivers apart is not shown (P4)",))
    return Guarantee(
        sink,
        "exactly once",
        (
            _commits_together(settings, has_results=spec.aggregate is not None),
            "expressions look at one row and give the same answer on replay, so a replayed batch is the same batch",
            "records that cannot be decoded are quarantined before the commit, never dropped (P3.3)",
            *_of_state(spec),
        ),
    )


def _of_state(spec: StreamSpec) -> list[str]:
    if spec.watermark is None:
        return []
    kept = [*(["duplicates are told"] if spec.dedupe else []), *(["windows are kept"] if spec.aggregate else [])]
    reasons = [f"{' and '.join(kept)} by Spark's watermark state, which is rebuilt from Kafka when it is lost (P6)"]
    if spec.dedupe is not None:
        reasons.append(
            f"of the copies of a key whose event times lie within {in_words(spec.watermark.within)} of each other one is "
            "delivered, unless all of them are late; which one is not promised (P6.5)"
        )
    if spec.aggregate is not None:
        reasons.append("results are absolute values, so a replayed batch writes the same values over them (P6.1)")
    fate = "quarantined" if spec.quarantines_late else "counted"
    return [*reasons, f"late records change no row, and are {fate} by a read of their own of each batch's range (P6.4)"]


def _commits_together(settings: Sink, has_results: bool) -> str:
    if isinstance(settings, LakeTable):
        of_keys = OF_RESULTS if has_results else "the newest row of each key"
        rows = of_keys if isinstance(settings, DeltaMerge) else "rows"
        return f"{rows}, tidemark and ledger become visible in one Delta commit of {settings.table} (P4)"
    if isinstance(settings, KafkaOutput):
        return f"outputs, rejects and marks become visible in one transaction per slot of {settings.connection} (P5)"
    what = {
        "postgres_insert_new": "the first row of each key",
        "postgres_upsert": OF_RESULTS if has_results else "the newest row of each key",
        "postgres_totals": "totals, each record added once",
    }[settings.kind]
    return f"{what}, rejects, tidemark and ledger become visible in one transaction of {settings.connection} (P5)"
