"""Checks what is said of its Delta tables: columns that exist, keys that compare exactly, an order that records have."""

from include.contract.named_columns import MakeProblem, check_names
from include.contract.problems import Problem
from include.contract.spark_types import is_simple
from include.contract.stream_spec import BY_KAFKA_TIME, BY_OFFSET, DeltaMerge, LakeTable, RecordSchema, Sink, StreamSpec

DOES = {"partition_by": "partition", "cluster_by": "cluster"}
INEXACT = ("float", "real", "double")


def check_lake_table(
    sink: str, settings: LakeTable, output: list[str], schema: RecordSchema, problem: MakeProblem
) -> list[Problem]:
    named = {"partition_by": settings.partition_by, "cluster_by": settings.cluster_by}
    problems = []
    for name, columns in named.items():
        problems += check_names(f"sinks.{sink}.{name}", columns, output, problem, "sinks", sink, name)
        problems += [
            problem(f"sinks.{sink}.{name} names {column!r}, but Delta cannot {DOES[name]} by {kind}.", "sinks", sink, name)
            for column, kind in _types(columns, schema).items()
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
        for name, kind in _types(settings.key, schema).items()
        if not is_simple(kind) or kind.strip().lower() in INEXACT
    ]
    problems += _check_order(sink, settings, output, problem)
    if settings.deleted is not None:
        problems += check_names(f"sinks.{sink}.deleted", [settings.deleted], output, problem, *at, "deleted")
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


def _check_order(sink: str, settings: DeltaMerge, output: list[str], problem: MakeProblem) -> list[Problem]:
    at = ("sinks", sink, "order")
    if settings.is_by_offset and BY_OFFSET in output:
        return [problem(f"sinks.{sink}.order is 'offset', which means Kafka's: call the column 'offset' otherwise.", *at)]
    if settings.order in (BY_OFFSET, BY_KAFKA_TIME):
        return []
    return check_names(f"sinks.{sink}.order", [settings.order], [*output, BY_OFFSET, BY_KAFKA_TIME], problem, *at)


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
    if sink.order not in (BY_OFFSET, BY_KAFKA_TIME):
        return f"is ordered by {sink.order}, which a tombstone has not: use order: offset or _kafka_timestamp"
    return None


def _types(names: list[str], schema: RecordSchema) -> dict[str, str]:
    """Of the schema's own fields; what `select` makes, Spark knows when the stream starts."""
    return {name: schema.fields[name].type for name in names if name in schema.fields}
