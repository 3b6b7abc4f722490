"""What the hashes of a stateful stream cover: rows, what makes a record bad, and what the state is made by."""

from pathlib import Path

import pytest

from include.contract.catalog import load_streams
from include.contract.fingerprint import from_snapshot, judging_hash, snapshot, spec_hash, state_hash
from tests.unit.contract.test_catalog import change
from tests.unit.contract.test_stateful import ROWS, WINDOWS
from tests.unit.contract.test_stateful import config as config

OLDER = {  # as they were before there was state: a sink that was written by these goes on without levelling
    "orders_enriched": ("07dc29a28a7e6fbd", "7461f0e8238d86a8"),
    "orders_latest": ("273f49640e995c21", "7461f0e8238d86a8"),
    "orders_raw": ("d944435c6a5a83d1", "7461f0e8238d86a8"),
    "orders_to_postgres": ("89fe32b575f50b42", "7461f0e8238d86a8"),
    "user_metrics": ("63cd72e78f416e43", "7461f0e8238d86a8"),
}
LATE = "late: quarantine\ntrigger:"


def test_streams_without_state_have_the_hashes_that_they_always_had() -> None:
    """Rewrite them only together with HASH_VERSION, or with the shipped files."""
    shipped = load_streams()
    assert {name: (spec_hash(shipped[name]), judging_hash(shipped[name])) for name in OLDER} == OLDER


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        (ROWS, "within: 10 minutes", "within: 20 minutes", "spec state"),
        (ROWS, "key: [event_id]", "key: [event_id, user_id]", "spec judging state"),
        (ROWS, "event_time: ts", "event_time: sent", "spec judging state"),
        (ROWS, "amount * 100", "amount * 1000", "spec judging state"),
        (ROWS, "trigger:", "where: amount > 0\ntrigger:", "spec judging state"),
        (ROWS, "amount, ts]", "ts]", "spec state"),
        (ROWS, "trigger:", LATE, "spec judging"),
        (ROWS, "trigger:", "late: count\ntrigger:", ""),
        (ROWS, "table: rows", "table: rows2", "spec"),
        (ROWS, "topic: payments", "topic: paid", "spec judging state"),
        (ROWS, "schema: paid", "schema: paid, extra_fields: quarantine", "spec judging state"),
        (ROWS, "5 seconds", "1 minute", ""),
        (ROWS, "connection: kafka_main}", "connection: kafka_main, max_records_per_batch: 7}", ""),
        (WINDOWS, "window: 5 minutes", "window: 10 minutes", "spec state"),
        (WINDOWS, "window: 5 minutes", "window: 5 minutes, slide: 1 minute", "spec state"),
        (WINDOWS, "window: 5 minutes", "window: 300 seconds", ""),
        (WINDOWS, "max: [ts]", "max: [ts], emit: final", "spec state"),
        (WINDOWS, "max: [ts]", "max: [ts], emit: updates", ""),
        (WINDOWS, "count: payments", "count: paid", "spec state"),
        (WINDOWS, "within: 10 minutes", "within: 20 minutes", "spec state"),
    ],
)
def test_each_hash_covers_what_it_is_for(config: Path, file: str, old: str, new: str, changed: str) -> None:
    before = _hashes(config, file)
    change(config, file, old, new)
    after = _hashes(config, file)
    assert " ".join(name for name in before if before[name] != after[name]) == changed


def test_another_key_of_windows_changes_every_hash(config: Path) -> None:
    before = _hashes(config, WINDOWS)
    (config / WINDOWS).write_text((config / WINDOWS).read_text().replace("user_id", "event_id"))
    assert not set(before.items()) & set(_hashes(config, WINDOWS).items())


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (ROWS, "within: 10 minutes", "within: 20 minutes"),
        (WINDOWS, "within: 10 minutes", "within: 20 minutes"),
        (WINDOWS, "window: 5 minutes", "window: 10 minutes"),
        (WINDOWS, "window: 5 minutes", "window: 5 minutes, slide: 1 minute"),
    ],
)
def test_where_late_records_are_quarantined_what_makes_them_late_is_judged_too(
    config: Path, file: str, old: str, new: str
) -> None:
    change(config, file, "trigger:", LATE)
    before = _hashes(config, file)
    change(config, file, old, new)
    assert _hashes(config, file)["judging"] != before["judging"]


@pytest.mark.parametrize("name", ["rows", "windows"])
def test_a_stateful_stream_comes_back_from_its_snapshot(config: Path, name: str) -> None:
    stream = load_streams(config)[name]
    again = from_snapshot(snapshot(stream))
    assert again == stream
    assert [one(again) for one in (spec_hash, judging_hash, state_hash)] == [*_hashes(config, name).values()]


def _hashes(config: Path, file: str) -> dict[str, str]:
    stream = load_streams(config)[Path(file).stem]
    return {"spec": spec_hash(stream), "judging": judging_hash(stream), "state": state_hash(stream)}
