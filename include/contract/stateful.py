"""Checks what a stream file says of dedupe and windows: columns that exist and compare exactly, times that fit each other, and
nothing beside them that state cannot serve. What becomes of an aggregate's results is `result_sinks`'s."""

from math import ceil

from include.contract.named_columns import MakeProblem, check_names, doubled, known_types
from include.contract.problems import Problem
from include.contract.quantities import in_words
from include.contract.spark_types import INEXACT, INSTANTS, is_number, is_simple
from include.contract.stream_spec import Aggregate, KafkaOutput, RecordSchema, StreamSpec

MOST_WINDOWS = 100  # of one record: each is a row of state, and is written with every batch that touches it
NO_TOMBSTONE = "a tombstone has no event time, so it lies in no window and is a copy of nothing"


def check_stateful(spec: StreamSpec, schema: RecordSchema, rows: list[str], problem: MakeProblem) -> list[Problem]:
    """`rows`: the columns that `keep` and `select` leave."""
    if not spec.is_stateful:
        complaint = f"late is {spec.late!r}, but without dedupe or aggregate no record of a stream is late."
        return [problem(complaint, "late")] if spec.late else []
    problems = _check_surroundings(spec, problem)
    if spec.dedupe is not None:
        problems += _check_key("dedupe", spec.dedupe.key, schema, rows, problem)
        problems += _check_event_time("dedupe", spec.dedupe.event_time, schema, rows, problem)
    if spec.aggregate is not None:
        problems += _check_key("aggregate", spec.aggregate.key, schema, rows, problem)
        problems += _check_watermark(spec.aggregate, spec.dedupe is not None, schema, rows, problem)
        problems += [*_check_windows(spec.aggregate, problem), *_check_values(spec.aggregate, schema, rows, problem)]
    return problems


def _check_surroundings(spec: StreamSpec, problem: MakeProblem) -> list[Problem]:
    problems = []
    if spec.decode.tombstones == "delete":
        problems.append(problem(f"decode.tombstones is 'delete', but {NO_TOMBSTONE}.", "decode", "tombstones"))
    for name, sink in spec.sinks.items():
        if sink.begin == "earliest":
            complaint = "is 'earliest', but the stream's state begins where its other sinks are: give it a stream of its own."
            problems.append(problem(f"sinks.{name}.from {complaint}", "sinks", name, "from"))
        if isinstance(sink, KafkaOutput) and spec.aggregate is None and sink.slots != 1:
            complaint = f"is {sink.slots}, but a batch of a stateful stream must become visible as one (P6.5): use slots: 1."
            problems.append(problem(f"sinks.{name}.slots {complaint}", "sinks", name, "slots"))
    return problems


def _check_key(section: str, key: list[str], schema: RecordSchema, rows: list[str], problem: MakeProblem) -> list[Problem]:
    inexact = {name: kind for name, kind in known_types(key, schema).items() if not is_simple(kind) or kind in INEXACT}
    complaint = "{}.key names {!r}, which is {}: only a single value that compares exactly can be a key."
    return [
        *check_names(f"{section}.key", key, rows, problem, section, "key"),
        *(problem(complaint.format(section, name, kind), section, "key") for name, kind in inexact.items()),
    ]


def _check_event_time(section: str, name: str, schema: RecordSchema, rows: list[str], problem: MakeProblem) -> list[Problem]:
    key, at = f"{section}.event_time", (section, "event_time")
    problems = check_names(key, [name], rows, problem, *at)
    kind = known_types([name], schema).get(name)
    if kind is None or kind in INSTANTS:
        return problems
    complaint = f"{key} names {name!r}, which is {kind}: a watermark needs a timestamp, the same instant in every session."
    return [*problems, problem(complaint, *at)]


def _check_watermark(
    aggregate: Aggregate, has_dedupe: bool, schema: RecordSchema, rows: list[str], problem: MakeProblem
) -> list[Problem]:
    """Said once: by dedupe where there is one."""
    within = None if aggregate.within is None else in_words(aggregate.within)
    said = {"event_time": aggregate.event_time, "within": within}
    if has_dedupe:
        complaint = "aggregate.{} is {!r}, but dedupe says it already: leave it out."
        return [problem(complaint.format(name, value), "aggregate", name) for name, value in said.items() if value is not None]
    complaint = "aggregate.{} is missing: without dedupe the aggregate says by which time records are late, and when."
    problems = [problem(complaint.format(name), "aggregate", name) for name, value in said.items() if value is None]
    if aggregate.event_time is not None:
        problems += _check_event_time("aggregate", aggregate.event_time, schema, rows, problem)
    return problems


def _check_windows(aggregate: Aggregate, problem: MakeProblem) -> list[Problem]:
    if aggregate.slide is None:
        return []
    said = f"aggregate.slide is {in_words(aggregate.slide)!r}"
    if aggregate.slide > aggregate.window:
        complaint = f"{said}, but a window lasts {in_words(aggregate.window)}: what lies between two windows would be in neither."
        return [problem(complaint, "aggregate", "slide")]
    windows = ceil(aggregate.window / aggregate.slide)
    complaint = f"{said}, which puts each record into {windows:,} windows; {MOST_WINDOWS} are the most."
    return [problem(complaint, "aggregate", "slide")] if windows > MOST_WINDOWS else []


def _check_values(aggregate: Aggregate, schema: RecordSchema, rows: list[str], problem: MakeProblem) -> list[Problem]:
    problems = doubled(aggregate.columns, "aggregate", problem, "aggregate")
    if not aggregate.values:
        problems.append(problem("aggregate has no values: give it sum, count, min, max or avg.", "aggregate"))
    named = {"sum": aggregate.sum, "min": aggregate.min, "max": aggregate.max, "avg": aggregate.avg}
    for name, columns in named.items():
        problems += check_names(f"aggregate.{name}", columns, rows, problem, "aggregate", name)
    added_up = [(name, *pair) for name in ("sum", "avg") for pair in known_types(named[name], schema).items()]
    return [
        *problems,
        *(
            problem(f"aggregate.{name} names {column!r}, which is a {kind}: {_why_not_added_up(kind)}.", "aggregate", name)
            for name, column, kind in added_up
            if not is_number(kind) or kind in INEXACT
        ),
    ]


def _why_not_added_up(kind: str) -> str:
    if kind in INEXACT:
        return "its total would depend on the order of the records. Make it a decimal or a whole number"
    return "only whole numbers and decimals add up"
