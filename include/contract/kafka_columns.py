"""Checks what is said of an output topic: columns that exist, an array to explode, times with room, no topic into itself."""

from datetime import timedelta

from include.contract.named_columns import MakeProblem, check_names
from include.contract.problems import Problem
from include.contract.stream_spec import AS_JSON, KafkaOutput, RecordSchema, Source

ROOM = timedelta(seconds=30)  # between the longest slot and the broker's patience: for the commit, and for clocks


def check_kafka_output(
    sink: str, settings: KafkaOutput, source: Source, output: list[str], schema: RecordSchema, problem: MakeProblem
) -> list[Problem]:
    named = {"key": settings.key, "explode": settings.explode, "value": None if settings.value == AS_JSON else settings.value}
    problems = []
    for name, column in named.items():
        if column is not None:
            problems += check_names(f"sinks.{sink}.{name}", [column], output, problem, "sinks", sink, name)
    complaints = {
        "topic": _into_itself(settings, source),
        "value": _two_meanings(settings, output) or _value_beside_explode(settings),
        "explode": _not_an_array(settings, schema),
        "transaction_timeout": _no_room(settings),
        "partition": _no_such_partition(settings),
    }
    return [*problems, *(problem(f"sinks.{sink}.{key}{text}", "sinks", sink, key) for key, text in complaints.items() if text)]


def _into_itself(settings: KafkaOutput, source: Source) -> str | None:
    if (settings.connection, settings.topic) != (source.connection, source.topic):
        return None
    return f" is {settings.topic!r}, which the stream reads: it would read its own outputs for ever."


def _two_meanings(settings: KafkaOutput, output: list[str]) -> str | None:
    if settings.value != AS_JSON or AS_JSON not in output:
        return None
    return " is 'json', which means all columns as JSON: call the column 'json' otherwise."


def _not_an_array(settings: KafkaOutput, schema: RecordSchema) -> str | None:
    field = schema.fields.get(settings.explode or "")
    if field is None or field.type.strip().lower().startswith("array"):
        return None
    return f" names {settings.explode!r}, which is {field.type} and no array."


def _value_beside_explode(settings: KafkaOutput) -> str | None:
    if settings.explode is None or settings.value in (AS_JSON, settings.explode):
        return None
    return f" is {settings.value!r}, the same for each element of {settings.explode!r}: use json or {settings.explode}."


def _no_room(settings: KafkaOutput) -> str | None:
    longest, patience = settings.slot_within, settings.transaction_timeout
    if patience >= longest + ROOM:
        return None
    return (
        f" is {patience.total_seconds():.0f} seconds, but a slot may take {longest.total_seconds():.0f}: the "
        f"broker would end it under way. Give it {ROOM.total_seconds():.0f} seconds more than slot_within."
    )


def _no_such_partition(settings: KafkaOutput) -> str | None:
    if settings.create is None or not isinstance(settings.partition, int) or settings.partition < settings.create.partitions:
        return None
    return f" is {settings.partition}, but the topic is made with {settings.create.partitions}, counted from 0."
