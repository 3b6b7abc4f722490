"""What is staged, and what is the same in every row of a batch: together all of our own columns."""

from include.contract.identity import OWN_COLUMNS
from include.contract.stream_spec import PostgresInsertNew, PostgresTotals
from jobs.postgres.partial_totals import RECORDS
from jobs.postgres.statements import KEPT_BY_BATCH, staged_columns
from jobs.postgres.text_forms import PLACES

IN_DATABASE = {"connection": "warehouse", "table": "t", "key": ["k"]}


def test_every_own_column_is_staged_or_known_for_the_whole_batch() -> None:
    sink = PostgresInsertNew(kind="postgres_insert_new", **IN_DATABASE)
    staged = staged_columns(sink, [*OWN_COLUMNS, "k", "v"])
    assert staged == ("_kafka_timestamp", "k", "v")
    assert {*staged, *KEPT_BY_BATCH, *PLACES} == {*OWN_COLUMNS, "k", "v"}


def test_totals_are_staged_by_the_names_of_the_table() -> None:
    sink = PostgresTotals(kind="postgres_totals", sum=["v"], min=["v", "w"], max=["k"], **IN_DATABASE)
    assert staged_columns(sink, ["k", "v", "w", "x"]) == ("k", "v", "v_min", "w_min", "k_max", RECORDS)
