"""Every expectation holds for balanced books, and fails for books that break it alone: Great Expectations judges both."""

from pathlib import Path
from typing import Any

import pytest

from include.contract.catalog import load_streams
from include.contract.stream_spec import DeltaAppend, DeltaMerge, KafkaOutput, PostgresInsertNew, PostgresTotals, PostgresUpsert
from include.reconciliation.expectations import Expected, Frame, _of_partitions, _of_window
from include.reconciliation.validation import validate

PARTITION = {
    **{"partition": 3, "start": 0, "end": 100, "differing": 0},
    **{"booked_read": 100, "booked_delivered": 90, "booked_quarantined": 4, "booked_filtered": 6, "booked_accounted": 100},
    **{"booked_good": 90, "booked_rejected": 0, "reject_rows": 0, "not_booked_rows": 0},
    **{"kafka_read": 100, "kafka_good": 90, "kafka_rejected": 0, "kafka_bad": 4, "kafka_filtered": 6, "kafka_checksum": "17"},
    "kafka_good_or_copy": 90,
    **{"table_rows": 90, "table_coordinates": 90, "table_checksum": "17", "quarantine_rows": 4, "quarantine_coordinates": 4},
}
WINDOW = {"gaps": 0, "rows_of_others": 0, "findings": 0, "repeated_keys": 0, "behind_seconds": 12.5, "waiting": 7}
IN_DATABASE = {"connection": "warehouse", "table": "t", "key": ["k"]}
DELTA = DeltaAppend(kind="delta_append", table="t")
MERGE = DeltaMerge(kind="delta_merge", table="t", key=["k"], order="o")
TOPIC = KafkaOutput(kind="kafka", connection="kafka_main", topic="t")
EXPECTED = {
    "partitions": (_of_partitions(DELTA, compacted=False), PARTITION),
    "compacted": (_of_partitions(DELTA, compacted=True), PARTITION),
    "newest row of each key": (_of_partitions(MERGE, compacted=False), PARTITION),
    "newest row of each key, compacted": (_of_partitions(MERGE, compacted=True), PARTITION),
    "first rows": (_of_partitions(PostgresInsertNew(kind="postgres_insert_new", **IN_DATABASE), compacted=False), PARTITION),
    "newest rows": (_of_partitions(PostgresUpsert(kind="postgres_upsert", order="o", **IN_DATABASE), compacted=False), PARTITION),
    "totals": (_of_partitions(PostgresTotals(kind="postgres_totals", count="n", **IN_DATABASE), compacted=False), PARTITION),
    "outputs": (_of_partitions(TOPIC, compacted=False), PARTITION),
    "outputs, compacted": (_of_partitions(TOPIC, compacted=True), PARTITION),
    "window": (_of_window(load_streams()["orders_raw"], DELTA), WINDOW),
    "window of newest rows": (_of_window(load_streams()["orders_raw"], MERGE), WINDOW),
    "window of outputs": (_of_window(load_streams()["orders_raw"], TOPIC), WINDOW),
}


def broken(row: dict[str, Any], expected: Expected) -> dict[str, Any]:
    """In the column that only this expectation looks at, if there is one."""
    if expected.other is None:
        return row | {expected.column: expected.at_most + 1}
    shared = {"table_rows", "quarantine_rows", "booked_read", "booked_rejected"}
    column = expected.other if expected.column in shared and expected.other not in shared else expected.column
    return row | {column: f"{row[column]}1" if isinstance(row[column], str) else row[column] + 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("validation")


@pytest.mark.parametrize("name", EXPECTED)
def test_balanced_books_pass(name: str, folder: Path) -> None:
    expected, row = EXPECTED[name]
    assert validate(folder, 1, [Frame(name, [row, row], expected)]) == []


@pytest.mark.parametrize("name", EXPECTED)
def test_each_expectation_fails_alone(name: str, folder: Path) -> None:
    """A row for each, which breaks it and no other: it is named for that expectation, and for no other."""
    expected, row = EXPECTED[name]
    twins = [broken(row, one) | {"twin": number} for number, one in enumerate(expected)]
    failed = validate(folder, 2, [Frame(name, [row | {"twin": -1}, *twins], expected)])
    assert len(failed) == len(expected)
    named = {found.expected.sentence: found.rows for found in failed}
    assert named == {one.sentence: [twin] for one, twin in zip(expected, twins, strict=True)}


def test_of_no_rows_nothing_is_said(folder: Path) -> None:
    """Great Expectations would find everything true of them."""
    expected, _ = EXPECTED["partitions"]
    assert validate(folder, 3, [Frame("partitions", [], expected)]) == []
    assert (folder / "gx" / "uncommitted" / "data_docs" / "local_site" / "index.html").exists()
