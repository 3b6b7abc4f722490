"""The stream file: what is accepted, and that what is refused is refused with file, line, value and the nearest valid one."""

import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from include.contract.__main__ import EDITOR_SCHEMAS
from include.contract.catalog import config_folder, load_streams, read_catalog
from include.contract.fingerprint import from_snapshot, judging_hash, snapshot, spec_hash
from include.contract.problems import StreamFilesInvalid

STREAM = "streams/orders_raw.yaml"
ROWS, TOTALS, LATEST = "streams/orders_to_postgres.yaml", "streams/user_metrics.yaml", "streams/orders_latest.yaml"
SCHEMA = "schemas/order.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for folder in ("streams", "schemas"):
        shutil.copytree(config_folder() / folder, tmp_path / folder)
    return tmp_path


def change(config: Path, file: str, old: str, new: str) -> None:
    text = (config / file).read_text()
    assert old in text, f"{old!r} is not in {file}"
    (config / file).write_text(text.replace(old, new, 1))


def complaints(config: Path) -> list[str]:
    with pytest.raises(StreamFilesInvalid) as refused:
        load_streams(config)
    return [str(problem) for problem in refused.value.problems]


def test_a_sum_that_depends_on_the_order_of_records_is_refused_at_load(config: Path) -> None:
    change(config, "schemas/order.yaml", "note: {type: string}", "weight: {type: double}")
    change(config, TOTALS, "sum: [amount_cents]", "sum: [amount_cents, weight]")
    assert complaints(config) == [
        "config/streams/user_metrics.yaml:15: sinks.totals.sum names 'weight', which is a double: its total would depend on the "
        "order of the records. Make it a decimal or a whole number."
    ]


def test_the_shipped_stream_files_are_valid() -> None:
    streams = load_streams()
    assert streams["orders_raw"].spec.source.topic == "orders"
    assert streams["orders_raw"].schema.fields["amount"].type == "decimal(12,2)"


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (STREAM, "owner:", "ownr:", "orders_raw.yaml:2: ownr is not a key that is known here. Did you mean 'owner'?"),
        (STREAM, "topic: orders,", "topik: orders,", "orders_raw.yaml:3: source.topik is not a key that is known here. Did you mean 'topic'?"),
        (STREAM, "start: earliest", "start: earlyest", "source.start is 'earlyest', but must be earliest or latest. Did you mean 'earliest'?"),
        (STREAM, "kind: delta_append", "kind: delta_apend", "sinks.lake.kind is 'delta_apend', but must be delta_append or delta_merge or postgres_insert_new or postgres_upsert or postgres_totals or kafka. Did you mean"),
        (TOTALS, "key: [user_id]", "key: [user]", "user_metrics.yaml:14: sinks.totals.key names 'user', which is no column. Did you mean 'user_id'?"),
        (TOTALS, "sum: [amount_cents]", "summ: [amount_cents]", "user_metrics.yaml:15: sinks.totals.summ is not a key that is known here. Did you mean 'sum'?"),
        (STREAM, "kind: delta_append,", "kind: delta_append, from: latest,", "sinks.lake.from is 'latest', but must be earliest or now"),
        (TOTALS, "count: orders", "count: user_id", "sinks.totals has the column 'user_id' a second time."),
        (TOTALS, "    sum: [amount_cents]\n    count: orders\n    max: [ts]\n", "", "sinks.totals has no totals: give it sum, count, min or max."),
        ("schemas/order.yaml", "ts: {type: timestamp,", "ts: {type: timestamp_ntz,", "sinks.warehouse: 'ts' is a time without a zone, which means another instant"),
        (ROWS, ", key: [event_id]}", "}", "orders_to_postgres.yaml:9: sinks.warehouse.key is missing."),
        (ROWS, "kind: postgres_insert_new", "kind: postgres_upsert", "sinks.warehouse.order is missing."),
        (ROWS, "table: orders,", "table: user_metrics,", "which belongs to orders_to_postgres.warehouse already."),
        (ROWS, "table: orders,", "table: public.user_metrics,", "which belongs to orders_to_postgres.warehouse already."),
        (ROWS, "table: orders,", "table: a.b.c,", "sinks.warehouse.table is 'a.b.c', which does not fit"),
        (LATEST, "key: [user_id], ", "", "orders_latest.yaml:9: sinks.latest.key is missing."),
        (LATEST, ", order: ts", "", "orders_latest.yaml:9: sinks.latest.order is missing."),
        (LATEST, "order: ts", "order: tss", "orders_latest.yaml:9: sinks.latest.order names 'tss', which is no column. Did you mean 'ts'?"),
        (LATEST, "order: ts", "order: ts, deleted: gone", "sinks.latest.deleted names 'gone', which is no column."),
        (LATEST, "order: ts", "order: ts, partition_by: [event_id]", "sinks.latest.partition_by names 'event_id', which is no part of the key: a newer row of a key would lie in another partition"),
        (LATEST, "order: ts", "order: ts, cluster_by: [usr_id]", "sinks.latest.cluster_by names 'usr_id', which is no column. Did you mean 'user_id'?"),
        (LATEST, "order: ts", "order: ts, purge_deleted_after: 30", "sinks.latest.purge_deleted_after is 30, which is not a positive whole number with a unit"),
        (LATEST, "order: ts", "order: ts, schema_changes: add", "sinks.latest.schema_changes is 'add', but must be refuse or add_columns."),
        (LATEST, "tombstones: quarantine", "tombstones: delete", "orders_latest.yaml:4: decode.tombstones is 'delete', but sink latest is ordered by ts, which a tombstone has not: use order: offset or _kafka_timestamp."),
        (STREAM, "tombstones: quarantine", "tombstones: delete", "decode.tombstones is 'delete', but sink lake is of kind delta_append, which keeps no deletes."),
        (STREAM, "schema: order,", "schema: orders,", "orders_raw.yaml:4: decode.schema is 'orders', but there is no config/schemas/orders.yaml. Did you mean 'order'?"),
        (STREAM, "200000", "many", "source.max_records_per_batch is 'many': input should be a valid integer"),
        (STREAM, "200000", "0", "source.max_records_per_batch is 0: input should be greater than 0"),
        (STREAM, "5 seconds", "5", "orders_raw.yaml:7: trigger is 5, which is not a positive whole number with a unit, such as 5 seconds."),
        (STREAM, "5 seconds", "5 parsecs", "trigger is '5 parsecs', which has the unit 'parsecs'; use seconds, minutes, hours or days."),
        (STREAM, "1 MB", "1 mb", "decode.max_value_bytes is '1 mb', which has the unit 'mb'; use B, kB, MB"),
        (STREAM, "amount > 0", "amuont > 0", "orders_raw.yaml:5: where reads 'amuont', which is no column. Did you mean 'amount'?"),
        (STREAM, "amount > 0", "amount >", "where is 'amount >', which is not a Spark SQL expression"),
        (STREAM, "amount > 0", "rand() > 0.5", "where is 'rand() > 0.5', which calls 'rand', which is no function of one row that answers the same on replay."),
        (STREAM, "date(ts)", "current_date()", "select.day is 'current_date()', which asks for the date"),
        (STREAM, "date(ts)", "uuid()", "select.day is 'uuid()', which calls 'uuid'"),
        (STREAM, "date(ts)", "\"date'now'\"", "which holds the text 'now', which Spark can read as the time of the replay."),
        (STREAM, "date(ts)", "\"window(ts, '1 hour')\"", "which calls 'window'"),
        (STREAM, "date(ts)", "mean(amount)", "which calls 'mean'"),
        (STREAM, "date(ts)", "any(amount > 1)", "which"),
        (STREAM, "date(ts)", "uper(note)", "which calls 'uper', which is no function of one row that answers the same on replay. Did you mean 'upper'?"),
        (STREAM, "date(ts)", "catalog.f(note)", "which calls 'f' by a qualified name"),
        (STREAM, "date(ts)", "identifier('note')", "which calls 'identifier'"),
        (STREAM, "topic: orders,", "topic: ..,", "source.topic is '..', which does not fit"),
        (STREAM, "200000", "99999999999", "source.max_records_per_batch is 99999999999: input should be less than or equal to 2147483647"),
        (STREAM, "owner: orders-team", "owner: !!bool foo", "orders_raw.yaml:2: the tag 'tag:yaml.org,2002:bool' is not used in stream files."),
        (STREAM, "owner: orders-team", "owner: 2001-99-99", "orders_raw.yaml:2: the value '2001-99-99' cannot be read"),
        (STREAM, "date(ts)", "sum(amount)", "select.day is 'sum(amount)', which holds an aggregate"),
        (STREAM, "date(ts)", "explode(array(1))", "which calls 'explode'"),
        (STREAM, "amount > 0", "_batch_id > 0", "where reads '_batch_id', which is no column."),
        (STREAM, "date(ts)", "(select 1)", "which holds a query"),
        (STREAM, "date(ts)", "row_number() over (order by ts)", "which holds a window function"),
        (STREAM, "[day]", "[dya]", "orders_raw.yaml:9: sinks.lake.partition_by names 'dya', which is no column. Did you mean 'day'?"),
        (STREAM, "[event_id]", "[even_id]", "reconcile.unique names 'even_id', which is no column. Did you mean 'event_id'?"),
        (STREAM, "{day:", "{AMOUNT:", "select has the column 'AMOUNT' a second time."),
        (STREAM, "{day:", "{_day:", "select._day is '_day', which does not fit"),
        (STREAM, "trigger:", "owner: me\ntrigger:", "orders_raw.yaml:7: the key 'owner' stands here a second time."),
        (STREAM, "owner: orders-team", "true: x", "orders_raw.yaml:2: the key 'true' is not text (write it in quotes)."),
        (STREAM, "owner: orders-team", "owner: &a x\nnote: *a", "anchors and aliases (& and *) are not used in stream files."),
        (STREAM, "owner: orders-team", "owner: [", "this is not YAML"),
        (STREAM, "table: orders,", "table: quarantine,", "sinks.lake.table is 'quarantine', which belongs to every stream's quarantine already."),
        (SCHEMA, "timestamp", "timestemp", "order.yaml:6: fields.ts.type is 'timestemp', which is no Spark SQL type"),
        (SCHEMA, "{type: string}", "{type: array<strin>}", "fields.note.type is 'array<strin>', which is no Spark SQL type"),
        (SCHEMA, "decimal(12,2)", "decimal(50,2)", "fields.amount.type is 'decimal(50,2)'"),
        (SCHEMA, "note:", "EVENT_ID:", "fields has the column 'EVENT_ID' a second time."),
        (SCHEMA, "required: true", "requird: true", "fields.event_id.requird is not a key that is known here. Did you mean 'required'?"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)  # fmt: skip
def test_a_mistake_is_refused_with_its_place(config: Path, file: str, old: str, new: str, complaint: str) -> None:
    change(config, file, old, new)
    assert [told for told in complaints(config) if complaint in told], complaints(config)


@pytest.mark.parametrize(
    "expression",
    [
        "from_utc_timestamp(ts, 'UTC')",
        "case when amount > 1 then upper(note) else lower(note) end",
        "cast(amount as decimal(10,2)) + coalesce(amount, 0)",
        "amount in (1, 2) and (note is not null or not (note like 'x%'))",
        "concat_ws('-', _topic, _partition, _offset)",
        "split(note, ' ')[0]",
    ],
)
def test_ordinary_spark_expressions_are_accepted(config: Path, expression: str) -> None:
    change(config, STREAM, "date(ts)", json.dumps(expression))
    assert load_streams(config)["orders_raw"].spec.select["day"] == expression


def test_a_table_is_not_partitioned_by_a_column_of_many_values(config: Path) -> None:
    change(config, SCHEMA, "{type: string}", "{type: array<string>}")
    change(config, STREAM, "[day]", "[note]")
    assert "sinks.lake.partition_by names 'note', but Delta cannot partition by array<string>." in complaints(config)[0]


def test_one_bad_file_does_not_hide_the_good_ones(config: Path) -> None:
    (config / "streams" / "bad.yaml").write_text("description: bad\n")
    catalog = read_catalog(config)
    assert list(catalog.streams) == [
        *("orders_enriched", "orders_latest", "orders_raw", "orders_to_postgres"),
        *("payment_totals", "user_event_counts", "user_metrics"),
    ]
    assert {problem.file for problem in catalog.problems} == {"config/streams/bad.yaml"}


def test_an_editors_lock_is_passed_over_and_any_other_name_is_told(config: Path) -> None:
    (config / "streams" / ".#orders_raw.yaml").symlink_to("someone@somewhere.123")
    load_streams(config)
    (config / "streams" / "other.yml").write_text("")
    (config / "streams" / "folder.yaml").mkdir()
    assert [told.partition(": ")[0] for told in complaints(config)] == [
        "config/streams/folder.yaml:1",
        "config/streams/other.yml:1",
    ]


def test_a_missing_folder_is_told(config: Path) -> None:
    shutil.rmtree(config / "streams")
    assert complaints(config) == ["config/streams:1: this folder is missing."]


def test_an_order_that_could_be_a_column_or_kafkas_own_is_refused(config: Path) -> None:
    change(config, LATEST, "order: ts", "order: offset")
    load_streams(config)
    change(config, LATEST, "select: {", "select: {offset: _offset, ")
    assert "sinks.latest.order is 'offset', which means Kafka's" in complaints(config)[0]


def test_a_key_that_does_not_compare_exactly_is_refused(config: Path) -> None:
    change(config, SCHEMA, "note: {type: string}", "weight: {type: double}")
    change(config, LATEST, "key: [user_id]", "key: [user_id, weight]")
    assert "sinks.latest.key names 'weight', which is double: only a single value that compares exactly" in complaints(config)[0]


def test_tombstones_delete_where_kafkas_key_is_the_tables(config: Path) -> None:
    change(config, LATEST, "tombstones: quarantine", "tombstones: delete")
    change(config, LATEST, "order: ts", "order: _kafka_timestamp")
    assert load_streams(config)["orders_latest"].spec.tombstone_key == "user_id"
    change(config, LATEST, "key: [user_id]", "key: [user_id, note]")
    assert "sink latest has a key that is not one field of the schema" in complaints(config)[0]


@pytest.mark.parametrize("more", ["cluster_by: [ts]", "schema_changes: add_columns", "purge_deleted_after: 30 days"])
def test_how_a_table_is_looked_after_does_not_change_the_spec_hash(config: Path, more: str) -> None:
    before = spec_hash(load_streams(config)["orders_latest"])
    change(config, LATEST, "order: ts", f"order: ts, {more}")
    assert spec_hash(load_streams(config)["orders_latest"]) == before


def test_a_missing_key_is_named(config: Path) -> None:
    change(config, STREAM, "owner: orders-team\n", "")
    assert complaints(config) == ["config/streams/orders_raw.yaml:1: owner is missing."]


def test_every_problem_of_every_file_is_told_at_once(config: Path) -> None:
    change(config, STREAM, "5 seconds", "5")
    change(config, STREAM, "start: earliest", "start: now")
    change(config, SCHEMA, "decimal(12,2)", "money")
    assert len(complaints(config)) == 3


def test_two_streams_may_not_write_one_table(config: Path) -> None:
    shutil.copy(config / STREAM, config / "streams" / "orders_again.yaml")
    (told,) = complaints(config)
    assert "orders_raw.yaml:9: sinks.lake.table is 'orders', which belongs to orders_again.lake already." in told


def test_a_file_name_that_cannot_name_a_stream_is_refused(config: Path) -> None:
    (config / STREAM).rename(config / "streams" / "Orders-Raw.yaml")
    assert "config/streams/Orders-Raw.yaml:1: name is 'Orders-Raw', which does not fit" in complaints(config)[0]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (STREAM, "amount > 0", "amount >= 0"),
        (STREAM, "date(ts)", "to_date(ts)"),
        (STREAM, "tombstones: quarantine", "tombstones: filter"),
        (STREAM, "table: orders", "table: orders2"),
        (STREAM, "topic: orders", "topic: orders2"),
        (SCHEMA, "note: {type: string}", "note: {type: bigint}"),
    ],
)
def test_what_changes_rows_changes_the_spec_hash(config: Path, file: str, old: str, new: str) -> None:
    before = spec_hash(load_streams(config)["orders_raw"])
    change(config, file, old, new)
    assert spec_hash(load_streams(config)["orders_raw"]) != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("5 seconds", "1 minute"),
        ("200000", "1000"),
        ("orders-team", "others"),
        ("stuck_after: 5 minutes", "stuck_after: 1 hour"),
        ("every: 15 minutes", "every: 1 hour"),
        ("kind: delta_append,", "kind: delta_append, from: now,"),
    ],
)
def test_what_does_not_change_rows_changes_the_snapshot_alone(config: Path, old: str, new: str) -> None:
    before = load_streams(config)["orders_raw"]
    change(config, STREAM, old, new)
    after = load_streams(config)["orders_raw"]
    assert spec_hash(after) == spec_hash(before)
    assert snapshot(after) != snapshot(before)
    assert from_snapshot(snapshot(after)) == after


@pytest.mark.parametrize(
    ("old", "new", "judges_alike"),
    [
        ("table: orders", "table: orders2", True),
        ("amount > 0", "amount >= 0", True),
        ("tombstones: quarantine", "tombstones: filter", False),
    ],
)
def test_only_what_makes_a_record_bad_changes_the_judging_hash(config: Path, old: str, new: str, judges_alike: bool) -> None:
    before = judging_hash(load_streams(config)["orders_raw"])
    change(config, STREAM, old, new)
    assert (judging_hash(load_streams(config)["orders_raw"]) == before) is judges_alike


@pytest.mark.parametrize("name", EDITOR_SCHEMAS)
def test_the_schemas_for_editors_are_up_to_date(name: str) -> None:
    """If this fails: `make editor-schemas`."""
    assert json.loads((config_folder() / name).read_text()) == EDITOR_SCHEMAS[name].model_json_schema()


@pytest.mark.parametrize(("name", "folder"), [("stream.schema.json", "streams"), ("record.schema.json", "schemas")])
def test_what_is_shipped_is_right_to_an_editor_too(name: str, folder: str) -> None:
    schema = json.loads((config_folder() / name).read_text())
    for file in (config_folder() / folder).glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(file.read_text()), schema, format_checker=jsonschema.FormatChecker())
