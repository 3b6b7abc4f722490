"""Dedupe and windows in a stream file: what is accepted, and that each refusal has its place, its value and its reason."""

# ruff: noqa: E501 - a table, one case per line

from datetime import timedelta
from pathlib import Path

import pytest

from include.contract.catalog import load_streams
from include.contract.stream_spec import Watermark
from tests.unit.contract.test_catalog import change, complaints

WINDOWS, ROWS, PLAIN = "streams/windows.yaml", "streams/rows.yaml", "streams/plain.yaml"
SCHEMA = "schemas/paid.yaml"
HEAD = """\
description: Payments
owner: payments-team
source: {topic: payments, connection: kafka_main}
decode: {format: json, schema: paid}
select: {cents: cast(amount * 100 as bigint), sent: to_timestamp(note)}
trigger: 5 seconds
reconcile: {every: 1 hour}
health: {stuck_after: 10 minutes}
"""
CONTENT = {
    SCHEMA: """\
description: A payment
fields:
  event_id: {type: string, required: true}
  user_id: {type: string, required: true}
  amount: {type: "decimal(12,2)"}
  weight: {type: double}
  tags: {type: array<string>}
  note: {type: string}
  day: {type: date}
  local: {type: timestamp_ntz}
  ts: {type: timestamp, required: true}
""",
    WINDOWS: f"""{HEAD}\
aggregate: {{key: [user_id], window: 5 minutes, sum: [cents], count: payments, max: [ts], event_time: ts, within: 10 minutes}}
sinks:
  lake: {{kind: delta_merge, table: windows, key: [user_id, window_start]}}
  newest: {{kind: postgres_upsert, connection: warehouse, table: windows, key: [window_start, user_id]}}
""",
    ROWS: f"""{HEAD}\
dedupe: {{key: [event_id], event_time: ts, within: 10 minutes}}
keep: [event_id, user_id, amount, ts]
sinks:
  lake: {{kind: delta_append, table: rows}}
  topic: {{kind: kafka, connection: kafka_main, topic: rows, slots: 1}}
  counts: {{kind: postgres_totals, connection: warehouse, table: counts, key: [user_id], count: events}}
  latest: {{kind: delta_merge, table: latest, key: [user_id], order: ts}}
""",
    PLAIN: f"""{HEAD}\
keep: [user_id, ts]
sinks:
  newest: {{kind: postgres_upsert, connection: warehouse, table: plain, key: [user_id], order: ts}}
""",
}
DEDUPED = "dedupe: {key: [event_id], event_time: ts, within: 10 minutes}"
ON_TIME = ", event_time: ts, within: 10 minutes"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    for file, content in CONTENT.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(content)
    return tmp_path


def test_the_files_are_valid_as_they_stand(config: Path) -> None:
    streams = load_streams(config)
    assert [streams[name].spec.is_stateful for name in ("plain", "rows", "windows")] == [False, True, True]
    assert streams["plain"].spec.watermark is None
    expected = Watermark("ts", timedelta(minutes=10))
    assert (streams["rows"].spec.watermark, streams["windows"].spec.watermark) == (expected, expected)


def test_the_shipped_streams_count_each_payment_once() -> None:
    shipped = load_streams()
    totals, counts = shipped["payment_totals"].spec, shipped["user_event_counts"].spec
    assert totals.aggregate is not None
    assert totals.aggregate.columns == ["user_id", "window_start", "window_end", "amount_cents", "payments", "ts_max"]
    assert [one.dedupe and one.dedupe.key for one in (totals, counts)] == [["event_id"], ["event_id"]]


def test_results_are_named_in_the_order_of_the_file_format(config: Path) -> None:
    change(config, WINDOWS, "max: [ts]", "max: [ts, cents], min: [cents], avg: [amount]")
    aggregate = load_streams(config)["windows"].spec.aggregate
    assert aggregate is not None
    assert aggregate.values == ["cents", "payments", "cents_min", "ts_max", "cents_max", "amount_avg"]


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        (ROWS, "dedupe: {key: [event_id],", "dedupe: {ky: [event_id],", "rows.yaml:9: dedupe.ky is not a key that is known here. Did you mean 'key'?"),
        (WINDOWS, "count: payments", "cuont: payments", "windows.yaml:9: aggregate.cuont is not a key that is known here. Did you mean 'count'?"),
        (ROWS, "[event_id], event_time", "[], event_time", "rows.yaml:9: dedupe.key is []"),
        (ROWS, "[event_id], event_time", "[evnt_id], event_time", "rows.yaml:9: dedupe.key names 'evnt_id', which is no column. Did you mean 'event_id'?"),
        (ROWS, "[event_id], event_time", "[note], event_time", "rows.yaml:9: dedupe.key names 'note', which is no column."),
        (ROWS, "[event_id], event_time", "[event_id, event_id], event_time", "dedupe.key has the column 'event_id' a second time."),
        (ROWS, "amount, ts]\n", "amount]\n", "rows.yaml:9: dedupe.event_time names 'ts', which is no column."),
        (ROWS, "[event_id], event_time: ts", "[event_id]", "rows.yaml:9: dedupe.event_time is missing."),
        (ROWS, "within: 10 minutes", "within: 0 minutes", "rows.yaml:9: dedupe.within is '0 minutes', which is not a positive whole number with a unit"),
        (ROWS, "within: 10 minutes", "within: 500 milliseconds", "dedupe.within is '500 milliseconds', which has the unit 'milliseconds'; use seconds, minutes, hours or days."),
        (WINDOWS, "window: 5 minutes", "window: 0 seconds", "aggregate.window is '0 seconds', which is not a positive whole number with a unit"),
        (WINDOWS, "window: 5 minutes", "window: 5 minutes, slide: 1.5 seconds", "aggregate.slide is '1.5 seconds', which is not a positive whole number with a unit"),
        (WINDOWS, "window: 5 minutes", "window: 5 minutes, slide: 6 minutes", "windows.yaml:9: aggregate.slide is '6 minutes', but a window lasts 5 minutes: what lies between two windows would be in neither."),
        (WINDOWS, "window: 5 minutes", "window: 101 seconds, slide: 1 second", "windows.yaml:9: aggregate.slide is '1 second', which puts each record into 101 windows; 100 are the most."),
        (WINDOWS, "window: 5 minutes", "window: 201 seconds, slide: 2 seconds", "aggregate.slide is '2 seconds', which puts each record into 101 windows"),
        (WINDOWS, "key: [user_id], window:", "key: [usr_id], window:", "windows.yaml:9: aggregate.key names 'usr_id', which is no column. Did you mean 'user_id'?"),
        (WINDOWS, "sum: [cents]", "sum: [cent]", "windows.yaml:9: aggregate.sum names 'cent', which is no column. Did you mean 'cents'?"),
        (WINDOWS, "max: [ts]", "max: [tss]", "aggregate.max names 'tss', which is no column. Did you mean 'ts'?"),
        (WINDOWS, "max: [ts]", "min: [tss]", "aggregate.min names 'tss', which is no column."),
        (WINDOWS, "max: [ts]", "avg: [tss]", "aggregate.avg names 'tss', which is no column."),
        (WINDOWS, "sum: [cents]", "sum: [weight]", "windows.yaml:9: aggregate.sum names 'weight', which is a double: its total would depend on the order of the records. Make it a decimal or a whole number."),
        (WINDOWS, "max: [ts]", "avg: [weight]", "windows.yaml:9: aggregate.avg names 'weight', which is a double: its total would depend on the order of the records."),
        (WINDOWS, "sum: [cents]", "sum: [note]", "aggregate.sum names 'note', which is a string: only whole numbers and decimals add up."),
        (WINDOWS, "sum: [cents], count: payments, max: [ts], ", "", "windows.yaml:9: aggregate has no values: give it sum, count, min, max or avg."),
        (WINDOWS, "count: payments", "count: user_id", "windows.yaml:9: aggregate has the column 'user_id' a second time."),
        (WINDOWS, "count: payments", "count: window_end", "aggregate has the column 'window_end' a second time."),
        (WINDOWS, "count: payments", "count: TS_max", "aggregate has the column 'ts_max' a second time."),
        (WINDOWS, "max: [ts]", "emit: last", "aggregate.emit is 'last', but must be updates or final."),
        (WINDOWS, ", event_time: ts", "", "windows.yaml:9: aggregate.event_time is missing: without dedupe the aggregate says by which time records are late, and when."),
        (WINDOWS, ", within: 10 minutes", "", "windows.yaml:9: aggregate.within is missing: without dedupe the aggregate says"),
        (WINDOWS, "event_time: ts", "event_time: tss", "windows.yaml:9: aggregate.event_time names 'tss', which is no column. Did you mean 'ts'?"),
        (WINDOWS, "trigger:", "dedupe: {key: [event_id], event_time: ts, within: 10 minutes}\ntrigger:", "windows.yaml:10: aggregate.event_time is 'ts', but dedupe says it already: leave it out."),
        (WINDOWS, "trigger:", "dedupe: {key: [event_id], event_time: ts, within: 10 minutes}\ntrigger:", "windows.yaml:10: aggregate.within is '10 minutes', but dedupe says it already: leave it out."),
        (PLAIN, "trigger:", "late: quarantine\ntrigger:", "plain.yaml:6: late is 'quarantine', but without dedupe or aggregate no record of a stream is late."),
        (ROWS, "trigger:", "late: drop\ntrigger:", "rows.yaml:6: late is 'drop', but must be count or quarantine."),
        (ROWS, "schema: paid", "schema: paid, tombstones: delete", "rows.yaml:4: decode.tombstones is 'delete', but a tombstone has no event time, so it lies in no window and is a copy of nothing."),
        (ROWS, "table: rows}", "table: rows, from: earliest}", "rows.yaml:12: sinks.lake.from is 'earliest', but the stream's state begins where its other sinks are: give it a stream of its own."),
        (ROWS, "slots: 1", "slots: 3", "rows.yaml:13: sinks.topic.slots is 3, but a batch of a stateful stream must become visible as one (P6.5): use slots: 1."),
        (ROWS, ", slots: 1", "", "rows.yaml:13: sinks.topic.slots is 2, but a batch of a stateful stream must become visible as one"),
        (ROWS, ", order: ts", "", "rows.yaml:15: sinks.latest.order is missing."),
        (PLAIN, ", order: ts", "", "plain.yaml:11: sinks.newest.order is missing."),
        (WINDOWS, "kind: delta_merge, table: windows, key: [user_id, window_start]", "kind: delta_append, table: windows", "windows.yaml:11: sinks.lake.kind is 'delta_append', but a window's value is replaced as records come: an append would keep every value it ever had. Use delta_merge or postgres_upsert."),
        (WINDOWS, "kind: postgres_upsert", "kind: postgres_insert_new", "windows.yaml:12: sinks.newest.kind is 'postgres_insert_new', but a window's value is replaced as records come: this kind would keep the first."),
        (WINDOWS, "kind: postgres_upsert", "kind: postgres_totals", "sinks.newest.kind is 'postgres_totals', but a window's value is replaced as records come: totals would add absolute values up."),
        (WINDOWS, "kind: postgres_upsert, connection: warehouse, table: windows, key: [window_start, user_id]", "kind: kafka, connection: kafka_main, topic: windows", "sinks.newest.kind is 'kafka', but a window's value is replaced as records come: a topic would be sent each value."),
        (WINDOWS, "key: [user_id, window_start]", "key: [user_id]", "windows.yaml:11: sinks.lake.key is [user_id], but results are told apart by the aggregate's key and the window: [user_id, window_start]."),
        (WINDOWS, "key: [window_start, user_id]", "key: [window_start, user_id, window_end]", "windows.yaml:12: sinks.newest.key is [window_start, user_id, window_end], but results are told apart by"),
        (WINDOWS, "key: [user_id, window_start]", "key: [usr_id, window_start]", "sinks.lake.key names 'usr_id', which is no column. Did you mean 'user_id'?"),
        (WINDOWS, "key: [user_id, window_start]", "key: [user_id, window_start], order: ts_max", "windows.yaml:11: sinks.lake.order is 'ts_max', but of two results of a window that of the later batch always wins: leave it out."),
        (WINDOWS, "key: [window_start, user_id]", "key: [window_start, user_id], order: ts_max", "windows.yaml:12: sinks.newest.order is 'ts_max', but of two results of a window that of the later batch always wins"),
        (WINDOWS, "key: [user_id, window_start]", "key: [user_id, window_start], deleted: gone", "sinks.lake.deleted is 'gone', but no result deletes its window: leave it out."),
        (WINDOWS, "key: [user_id, window_start]", "key: [user_id, window_start], purge_deleted_after: 30 days", "sinks.lake.purge_deleted_after is '30 days', but no result deletes its window: leave it out."),
        (WINDOWS, "key: [user_id, window_start]", "key: [user_id, window_start], partition_by: [window_end]", "sinks.lake.partition_by names 'window_end', which is no part of the key"),
        (WINDOWS, "key: [user_id, window_start]", "key: [user_id, window_start], cluster_by: [amount]", "sinks.lake.cluster_by names 'amount', which is no column."),
        (WINDOWS, "every: 1 hour", "every: 1 hour, unique: [event_id]", "windows.yaml:7: reconcile.unique names 'event_id', which is no column."),
        (WINDOWS, "max: [ts]", "max: [local]", "sinks.newest: 'local_max' is a time without a zone, which means another instant in each session"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)  # fmt: skip
def test_a_mistake_is_refused_with_its_place(config: Path, file: str, old: str, new: str, complaint: str) -> None:
    change(config, file, old, new)
    assert [told for told in complaints(config) if complaint in told], complaints(config)


def test_windows_behind_dedupe_take_its_watermark(config: Path) -> None:
    change(config, WINDOWS, ON_TIME, "")
    change(config, WINDOWS, "aggregate:", f"{DEDUPED}\naggregate:")
    assert load_streams(config)["windows"].spec.watermark == Watermark("ts", timedelta(minutes=10))


@pytest.mark.parametrize(
    "windows", ["window: 5 minutes, slide: 5 minutes", "window: 100 seconds, slide: 1 second", "window: 1 second"]
)
def test_up_to_a_hundred_windows_of_a_record_are_accepted(config: Path, windows: str) -> None:
    change(config, WINDOWS, "window: 5 minutes", windows)
    load_streams(config)


@pytest.mark.parametrize("more", ["from: now", "cluster_by: [user_id]", "partition_by: [window_start]"])
def test_what_a_table_of_results_may_say_besides(config: Path, more: str) -> None:
    change(config, WINDOWS, "table: windows,", f"table: windows, {more},")
    load_streams(config)


@pytest.mark.parametrize("late", ["count", "quarantine"])
def test_a_stateful_stream_says_what_becomes_of_late_records(config: Path, late: str) -> None:
    change(config, ROWS, "trigger:", f"late: {late}\ntrigger:")
    assert load_streams(config)["rows"].spec.quarantines_late is (late == "quarantine")


@pytest.mark.parametrize(("name", "kind"), [("weight", "double"), ("tags", "array<string>")])
@pytest.mark.parametrize("section", ["dedupe", "aggregate"])
def test_a_key_that_does_not_compare_exactly_is_refused(config: Path, section: str, name: str, kind: str) -> None:
    change(config, ROWS, "keep: [", f"keep: [{name}, ")
    change(config, ROWS, "dedupe: {key: [event_id]", f"dedupe: {{key: [event_id, {name}]")
    change(config, WINDOWS, "aggregate: {key: [user_id]", f"aggregate: {{key: [user_id, {name}]")
    expected = f"{section}.key names {name!r}, which is {kind}: only a single value that compares exactly can be a key."
    assert [told for told in complaints(config) if expected in told], complaints(config)


@pytest.mark.parametrize(("name", "kind"), [("day", "date"), ("local", "timestamp_ntz"), ("note", "string")])
@pytest.mark.parametrize("section", ["dedupe", "aggregate"])
def test_an_event_time_that_is_no_instant_is_refused(config: Path, section: str, name: str, kind: str) -> None:
    change(config, ROWS, "keep: [", f"keep: [{name}, ")
    change(config, {"dedupe": ROWS, "aggregate": WINDOWS}[section], "event_time: ts", f"event_time: {name}")
    expected = (
        f"{section}.event_time names {name!r}, which is {kind}: a watermark needs a timestamp, the same instant in every session."
    )
    assert [told for told in complaints(config) if expected in told], complaints(config)


def test_an_event_time_that_select_makes_is_left_to_spark(config: Path) -> None:
    change(config, WINDOWS, "event_time: ts", "event_time: sent")
    change(config, ROWS, "event_time: ts", "event_time: sent")
    load_streams(config)


def test_a_window_that_is_written_when_it_is_closed_is_not_appended_either(config: Path) -> None:
    change(config, WINDOWS, "max: [ts]", "emit: final")
    change(
        config, WINDOWS, "kind: delta_merge, table: windows, key: [user_id, window_start]", "kind: delta_append, table: windows"
    )
    (told,) = complaints(config)
    assert "is 'delta_append', but a window's value is written again when a batch is replayed: an append would keep" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("key: [window_start, user_id]", "key: [window_start, user_id], order: ts"),
        ("kind: postgres_upsert", "kind: postgres_totals"),
        ("key: [window_start, user_id]", "key: [user_id]"),
        ("key: [window_start, user_id]", "key: [window_start, usr_id]"),
    ],
)
def test_one_mistake_of_a_sink_of_results_is_told_once(config: Path, old: str, new: str) -> None:
    change(config, WINDOWS, old, new)
    assert len(complaints(config)) == 1


def test_rows_behind_dedupe_may_go_to_a_sink_of_any_kind(config: Path) -> None:
    first = "first: {kind: postgres_insert_new, connection: warehouse, table: first, key: [event_id]}"
    newest = "newest: {kind: postgres_upsert, connection: warehouse, table: newest, key: [user_id], order: ts}"
    change(config, ROWS, "sinks:", f"sinks:\n  {first}\n  {newest}")
    kinds = {sink.kind for sink in load_streams(config)["rows"].spec.sinks.values()}
    assert kinds == {"delta_append", "delta_merge", "kafka", "postgres_totals", "postgres_upsert", "postgres_insert_new"}
