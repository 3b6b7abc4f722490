"""What a stream file says of an output topic is checked when it is loaded: with file, line, value and the nearest valid one."""

import shutil
from pathlib import Path

import pytest

from include.contract.catalog import config_folder, load_streams
from include.contract.fingerprint import from_snapshot, snapshot, spec_hash
from tests.unit.contract.test_catalog import change, complaints

STREAM = "streams/enriched.yaml"
CONTENT = """\
description: Orders with their words, for whoever wants them as they come
owner: orders-team
source: {topic: orders, connection: kafka_main, start: earliest, max_records_per_batch: 200000}
decode: {format: json, schema: listed}
select: {words: "split(note, ' ')", line: "concat(user_id, note)"}
trigger: 5 seconds
sinks:
  out:
    kind: kafka
    connection: kafka_main
    topic: enriched
    key: user_id
    create: {partitions: 6}
reconcile: {every: 1 hour, unique: [event_id]}
health: {stuck_after: 10 minutes}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for folder in ("streams", "schemas"):
        (tmp_path / folder).mkdir()
    shutil.copy(config_folder() / "schemas" / "order.yaml", tmp_path / "schemas" / "listed.yaml")
    (tmp_path / STREAM).write_text(CONTENT)
    return tmp_path


def test_the_file_is_valid_as_it_stands(config: Path) -> None:
    stream = load_streams(config)["enriched"]
    assert from_snapshot(snapshot(stream)) == stream


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("key: user_id", "key: user", "enriched.yaml:12: sinks.out.key names 'user', which is no column. Did you mean 'user_id'?"),
        ("key: user_id", "key: [user_id]", "enriched.yaml:12: sinks.out.key is ['user_id']"),
        ("key: user_id", "value: lines", "enriched.yaml:12: sinks.out.value names 'lines', which is no column. Did you mean 'line'?"),
        ("key: user_id", "explode: wrds", "sinks.out.explode names 'wrds', which is no column. Did you mean 'words'?"),
        ("key: user_id", "explode: amount", "enriched.yaml:12: sinks.out.explode names 'amount', which is decimal(12,2) and no array."),
        ("key: user_id", "explode: words\n    value: line", "enriched.yaml:13: sinks.out.value is 'line', the same for each element of 'words': use json or words."),
        ("topic: enriched", "topic: orders", "enriched.yaml:11: sinks.out.topic is 'orders', which the stream reads: it would read its own outputs for ever."),
        ("topic: enriched", "topic: ..", "enriched.yaml:11: sinks.out.topic is '..', which does not fit"),
        ("key: user_id", "partition: 6", "sinks.out.partition is 6, but the topic is made with 6, counted from 0."),
        ("key: user_id", "partition: keys", "sinks.out.partition"),
        ("key: user_id", "slots: 65", "sinks.out.slots is 65: input should be less than or equal to 64"),
        ("key: user_id", "compression: brotli", "sinks.out.compression is 'brotli', but must be none or gzip or snappy or lz4 or zstd."),
        ("key: user_id", "transaction_timeout: 149 seconds", "enriched.yaml:12: sinks.out.transaction_timeout is 149 seconds, but a slot may take 120: the broker would end it under way. Give it 30 seconds more than slot_within."),
        ("key: user_id", "slot_within: 5 minutes", "sinks.out.transaction_timeout is 300 seconds, but a slot may take 300"),
        ("line:", "json:", "sinks.out.value is 'json', which means all columns as JSON: call the column 'json' otherwise."),
        ("{partitions: 6}", "{partitons: 6}", "enriched.yaml:13: sinks.out.create.partitions is missing."),
        ("kind: kafka", "kind: kafak", "postgres_totals or kafka. Did you mean 'kafka'?"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)  # fmt: skip
def test_a_mistake_is_refused_with_its_place(config: Path, old: str, new: str, complaint: str) -> None:
    change(config, STREAM, old, new)
    assert [told for told in complaints(config) if complaint in told], complaints(config)


@pytest.mark.parametrize("topic", ["enriched", "enriched.tidemarks", "enriched.rejects"])
def test_two_sinks_may_not_write_one_topic_nor_what_belongs_to_it(topic: str, config: Path) -> None:
    other = CONTENT.replace("topic: enriched", f"topic: {topic}")
    (config / "streams" / "other.yaml").write_text(other)
    (told,) = complaints(config)
    assert f"other.yaml:11: sinks.out.topic is {topic!r}, which belongs to enriched.out already." in told


@pytest.mark.parametrize(
    "more", ["compression: zstd", "slots: 7", "slot_within: 1 minute", "transaction_timeout: 10 minutes", "from: earliest"]
)
def test_how_a_topic_is_written_does_not_change_the_spec_hash(more: str, config: Path) -> None:
    before = spec_hash(load_streams(config)["enriched"])
    change(config, STREAM, "key: user_id", f"key: user_id\n    {more}")
    assert spec_hash(load_streams(config)["enriched"]) == before


@pytest.mark.parametrize("more", ["explode: words", "value: line", "partition: source"])
def test_what_changes_outputs_changes_the_spec_hash(more: str, config: Path) -> None:
    before = spec_hash(load_streams(config)["enriched"])
    change(config, STREAM, "key: user_id", f"key: user_id\n    {more}")
    assert spec_hash(load_streams(config)["enriched"]) != before
