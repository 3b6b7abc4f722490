"""Checks the sinks of a stream that aggregates: they get absolute values by key and window, and replace what they had."""

from datetime import timedelta

from include.contract.named_columns import MakeProblem, known_types
from include.contract.problems import Problem
from include.contract.quantities import in_words
from include.contract.stream_spec import (
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    DeltaMerge,
    PostgresUpsert,
    RecordSchema,
    SchemaField,
    Sink,
)

WRITTEN_AGAIN = {
    "updates": "a window's value is replaced as records come",
    "final": "a window's value is written again when a batch is replayed",
}
UNFIT = {
    "delta_append": "an append would keep every value it ever had",
    "postgres_insert_new": "this kind would keep the first",
    "postgres_totals": "totals would add absolute values up",
    "kafka": "a topic would be sent each value",
}
TAKE_RESULTS = (DeltaMerge, PostgresUpsert)
NEVER = {
    "order": "of two results of a window that of the later batch always wins",
    "deleted": "no result deletes its window",
    "purge_deleted_after": "no result deletes its window",
}


def result_schema(aggregate: Aggregate, schema: RecordSchema) -> RecordSchema:
    """Of the results, as far as the record's schema tells it: what is added up, Spark knows when the stream starts."""
    compared = {f"{name}_{ending}": name for ending in ("min", "max") for name in getattr(aggregate, ending)}
    sources = {**{name: name for name in aggregate.key}, **compared}
    kinds = known_types(list(sources.values()), schema)
    types = {WINDOW_START: "timestamp", WINDOW_END: "timestamp"}
    types |= {name: kinds[source] for name, source in sources.items() if source in kinds}
    if aggregate.count:
        types[aggregate.count] = "bigint"
    return RecordSchema(description=schema.description, fields={name: SchemaField(type=kind) for name, kind in types.items()})


def check_result_sink(sink: str, settings: Sink, aggregate: Aggregate, problem: MakeProblem) -> list[Problem]:
    if not isinstance(settings, TAKE_RESULTS):
        reason = f"{WRITTEN_AGAIN[aggregate.emit]}: {UNFIT[settings.kind]}. Use delta_merge or postgres_upsert"
        return [problem(f"sinks.{sink}.kind is {settings.kind!r}, but {reason}.", "sinks", sink, "kind")]
    said = settings.model_dump(include=set(NEVER), exclude_none=True)
    given = {name: in_words(value) if isinstance(value, timedelta) else value for name, value in said.items()}
    return [
        *_check_key(sink, settings.key, aggregate, problem),
        *(
            problem(f"sinks.{sink}.{name} is {value!r}, but {NEVER[name]}: leave it out.", "sinks", sink, name)
            for name, value in given.items()
        ),
    ]


def _check_key(sink: str, key: list[str], aggregate: Aggregate, problem: MakeProblem) -> list[Problem]:
    wanted = [*aggregate.key, WINDOW_START]
    if set(key) == set(wanted) or not set(key) <= set(aggregate.columns):  # what is no column is told already
        return []
    complaint = f"is [{', '.join(key)}], but results are told apart by the aggregate's key and the window: [{', '.join(wanted)}]."
    return [problem(f"sinks.{sink}.key {complaint}", "sinks", sink, "key")]
