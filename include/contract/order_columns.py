"""Checks what tells the newest row of a key: its order, and which record deletes it. Results of an aggregate have neither."""

from include.contract.named_columns import MakeProblem, check_names
from include.contract.problems import Problem
from include.contract.stream_spec import BY_KAFKA_TIME, BY_OFFSET, DeltaMerge, PostgresUpsert


def check_newest(sink: str, settings: DeltaMerge | PostgresUpsert, output: list[str], problem: MakeProblem) -> list[Problem]:
    problems = _check_order(sink, settings, output, problem)
    if isinstance(settings, DeltaMerge) and settings.deleted is not None:
        problems += check_names(f"sinks.{sink}.deleted", [settings.deleted], output, problem, "sinks", sink, "deleted")
    return problems


def _check_order(sink: str, settings: DeltaMerge | PostgresUpsert, output: list[str], problem: MakeProblem) -> list[Problem]:
    key, at = f"sinks.{sink}.order", ("sinks", sink, "order")
    if settings.order is None:
        return [problem(f"{key} is missing.", *at)]
    if isinstance(settings, PostgresUpsert):
        return check_names(key, [settings.order], output, problem, *at)
    if settings.is_by_offset and BY_OFFSET in output:
        return [problem(f"{key} is 'offset', which means Kafka's: call the column 'offset' otherwise.", *at)]
    if settings.order in (BY_OFFSET, BY_KAFKA_TIME):
        return []
    return check_names(key, [settings.order], [*output, BY_OFFSET, BY_KAFKA_TIME], problem, *at)
