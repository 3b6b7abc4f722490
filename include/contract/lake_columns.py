"""Checks what is said of its Delta tables: columns that exist, keys that compare exactly, rows that stay in their partition."""

from include.contract.named_columns import MakeProblem, check_names, known_types
from include.contract.problems import Problem
from include.contract.spark_types import INEXACT, is_simple
from include.contract.stream_spec import BY_KAFKA_TIME, BY_OFFSET, DeltaMerge, LakeTable, RecordSchema, Sink, StreamSpec

DOES = {"partition_by": "partition", "cluster_by": "cluster"}


def check_lake_table(
    sink: str, settings: LakeTable, output: list[str], schema: RecordSchema, problem: MakeProblem
) -> list[Problem]:
    named = {"partition_by": settings.partition_by, "cluster_by": settings.cluster_by}
    problems = []
    for name, columns in named.items():
        problems += check_names(f"sinks.{sink}.{name}", columns, output, problem, "sinks", sink, name)
        problems += [
            problem(f"sinks.{sink}.{name} names {column!r}, but Delta cannot {DOES[name]} by {kind}.", "sinks", sink, name)
            for column, kind in known_types(columns, schema).items()
            if not is_simple(kind)
        ]
    return [*problems, *(_check_merge(sink, settings, output, schema, problem) if isinstance(settings, DeltaMerge) else ())]


def _check_merge(sink: str, settings: DeltaMerge, output: list[str], schema: RecordSchema, problem: MakeProblem) -> list[Problem]:
    at = ("sinks", sink)
    problems = check_names(f"sinks.{sink}.key", settings.key, output, problem, *at, "key")
    problems += [
        problem(
            f"sinks.{sink}.key names {name!r}, which is {kind}: only a single value that compares exactly can be a key.",
            *at,
            "key",
        )
        for name, kind in known_types(settings.key, schema).items()
        if not is_simple(kind) or kind in INEXACT
    ]
    moving = [name for name in settings.partition_by if name not in settings.key]
    return [
        *problems,
        *(
            problem(
                f"sinks.{sink}.partition_by names {name!r}, which is no part of the key: a newer row of a key would lie in "
                "another partition than the row that it replaces.",
                *at,
                "partition_by",
            )
            for name in moving
        ),
    ]


def check_tombstones(spec: StreamSpec, schema: RecordSchema, output: list[str], problem: MakeProblem) -> list[Problem]:
    """A tombstone has Kafka's key and nothing else: from that its row must be known, and its place in the order."""
    if spec.decode.tombstones != "delete":
        return []
    told = {name: _why_no_tombstone(sink, schema, output) for name, sink in spec.sinks.items()}
    if not any(told.values()) and len({sink.key[0] for sink in spec.sinks.values() if isinstance(sink, DeltaMerge)}) > 1:
        complaint = "decode.tombstones is 'delete', but the sinks have different keys, and Kafka's key can be one of them only."
        return [problem(complaint, "decode", "tombstones")]
    return [
        problem(f"decode.tombstones is 'delete', but sink {name} {why}.", "decode", "tombstones")
        for name, why in told.items()
        if why
    ]


def _why_no_tombstone(sink: Sink, schema: RecordSchema, output: list[str]) -> str | None:
    if not isinstance(sink, DeltaMerge):
        return f"is of kind {sink.kind}, which keeps no deletes"
    if len(sink.key) != 1 or sink.key[0] not in schema.fields or sink.key[0] not in output:
        return "has a key that is not one field of the schema, so Kafka's key cannot be taken for it"
    if sink.order not in (None, BY_OFFSET, BY_KAFKA_TIME):
        return f"is ordered by {sink.order}, which a tombstone has not: use order: offset or _kafka_timestamp"
    return None
