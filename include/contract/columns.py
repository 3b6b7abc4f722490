"""Checks that every column a stream file speaks of exists, has a possible type, and is written down once."""

from include.contract.expressions import ExpressionRefused, columns_of
from include.contract.identity import READABLE_COLUMNS
from include.contract.kafka_columns import check_kafka_output
from include.contract.lake_columns import check_lake_table, check_tombstones
from include.contract.named_columns import MakeProblem, check_names, doubled, known_types
from include.contract.order_columns import check_newest
from include.contract.problems import Problem, nearest
from include.contract.result_sinks import TAKE_RESULTS, check_result_sink, result_schema
from include.contract.spark_types import INEXACT, is_type
from include.contract.stateful import check_stateful
from include.contract.stream_spec import (
    KafkaOutput,
    LakeTable,
    PostgresSink,
    PostgresTotals,
    RecordSchema,
    Sink,
    StreamSpec,
)

LONGEST_NAME = 63 - len("_max")  # bytes, in PostgreSQL; a longer name would be cut off
NO_TYPE = "which is no Spark SQL type that JSON can hold, such as string, bigint, decimal(12,2), timestamp or array<string>"


def check_types(schema: RecordSchema, problem: MakeProblem) -> list[Problem]:
    unknown = {name: field.type for name, field in schema.fields.items() if not is_type(field.type)}
    return [
        *(problem(f"fields.{name}.type is {text!r}, {NO_TYPE}.", "fields", name, "type") for name, text in unknown.items()),
        *doubled(list(schema.fields), "fields", problem),
    ]


def check_columns(spec: StreamSpec, schema: RecordSchema, problem: MakeProblem) -> list[Problem]:
    decoded = list(schema.fields)
    rows = [*(spec.keep if spec.keep is not None else decoded), *spec.select]
    readable = {*decoded, *READABLE_COLUMNS}
    problems = doubled([*decoded, *spec.select], "select", problem)
    for name, text in spec.select.items():
        problems += _check_expression(f"select.{name}", text, readable, problem, "select", name)
    if spec.where is not None:
        problems += _check_expression("where", spec.where, readable, problem, "where")
    problems += check_names("keep", spec.keep or [], decoded, problem, "keep")
    problems += check_stateful(spec, schema, rows, problem)
    if spec.aggregate is not None:
        return [*problems, *_check_delivered(spec, result_schema(spec.aggregate, schema), spec.aggregate.columns, problem)]
    return [*problems, *_check_delivered(spec, schema, rows, problem)]


def _check_delivered(spec: StreamSpec, schema: RecordSchema, output: list[str], problem: MakeProblem) -> list[Problem]:
    """What speaks of the columns that sinks see: those of the rows, or of an aggregate's results."""
    problems = check_names("reconcile.unique", spec.reconcile.unique, output, problem, "reconcile", "unique")
    for sink, settings in spec.sinks.items():
        if spec.aggregate is not None:
            problems += check_result_sink(sink, settings, spec.aggregate, problem)
        elif isinstance(settings, TAKE_RESULTS):
            problems += check_newest(sink, settings, output, problem)
        if spec.aggregate is None or isinstance(settings, TAKE_RESULTS):  # of a kind that takes no results nothing more is said
            problems += _check_sink(sink, settings, spec, schema, output, problem)
    return problems if spec.is_stateful else [*problems, *check_tombstones(spec, schema, output, problem)]


def _check_sink(
    sink: str, settings: Sink, spec: StreamSpec, schema: RecordSchema, output: list[str], problem: MakeProblem
) -> list[Problem]:
    if isinstance(settings, LakeTable):
        return check_lake_table(sink, settings, output, schema, problem)
    if isinstance(settings, KafkaOutput):
        return check_kafka_output(sink, settings, spec.source, output, schema, problem)
    return [
        *_check_postgres(sink, settings, output, problem),
        *_check_types_for_postgres(sink, settings, output, schema, problem),
    ]


def _check_postgres(sink: str, settings: PostgresSink, output: list[str], problem: MakeProblem) -> list[Problem]:
    named = {"key": settings.key}
    problems: list[Problem] = []
    if isinstance(settings, PostgresTotals):
        named |= {"sum": settings.sum, "min": settings.min, "max": settings.max}
        problems += doubled([*settings.key, *settings.totals], f"sinks.{sink}", problem, "sinks", sink)
        if not settings.totals:
            problems.append(problem(f"sinks.{sink} has no totals: give it sum, count, min or max.", "sinks", sink))
    for name, columns in named.items():
        problems += check_names(f"sinks.{sink}.{name}", columns, output, problem, "sinks", sink, name)
    too_long = [name for name in output if len(name) > LONGEST_NAME]
    return [
        *problems,
        *(problem(f"sinks.{sink}: PostgreSQL has no names as long as {name!r}.", "sinks", sink) for name in too_long),
    ]


def _check_types_for_postgres(
    sink: str, settings: PostgresSink, output: list[str], schema: RecordSchema, problem: MakeProblem
) -> list[Problem]:
    """Of the schema's own fields; what `select` makes, Spark knows when the stream starts, and it is refused then."""
    written = [*settings.key, *settings.min, *settings.max] if isinstance(settings, PostgresTotals) else output
    summed = settings.sum if isinstance(settings, PostgresTotals) else []
    types = known_types([*written, *summed], schema)
    zoneless = [name for name in written if types.get(name) == "timestamp_ntz"]
    inexact = [name for name in summed if types.get(name) in INEXACT]
    return [
        *(
            problem(
                f"sinks.{sink}: {name!r} is a time without a zone, which means another instant in each session: keep it out, and "
                f"give it a zone in select, such as to_utc_timestamp({name}, 'Europe/Berlin').",
                *("sinks", sink),
            )
            for name in zoneless
        ),
        *(
            problem(
                f"sinks.{sink}.sum names {name!r}, which is a {types[name]}: its total would depend on the order of the records. "
                "Make it a decimal or a whole number.",
                *("sinks", sink, "sum"),
            )
            for name in inexact
        ),
    ]


def _check_expression(key: str, text: str, readable: set[str], problem: MakeProblem, *path: str) -> list[Problem]:
    try:
        unknown = columns_of(text) - {name.lower() for name in readable}
    except ExpressionRefused as refusal:
        return [problem(f"{key} is {text!r}, which {refusal}.", *path)]
    return [problem(f"{key} reads {name!r}, which is no column.{nearest(name, readable)}", *path) for name in sorted(unknown)]
