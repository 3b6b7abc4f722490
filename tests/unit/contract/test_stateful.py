"""Dedupe and windows in a stream file: what is accepted, and that each refusal has its place, its value and its reason."""

from datetime import timedelta
from pathlib import Path

import pytest

from include.contract.catalog import config_folder, load_streams
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
sinks:
  newest: {{kind: postgres_upsert, connection: warehouse, table: plain, key: [user_id], order: ts}}
""",
}
AGGREGATED = "aggregate: {key: [user_id], window: 5 minutes, sum: [cents]"


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


def test_the_shipped_streams_count_each_payment_once(config: Path) -> None:
    shipped = load_streams(config_folder())
    totals, counts = shipped["payment_totals"].spec, shipped["user_event_counts"].spec
    assert totals.aggregate is not None and totals.dedupe is not None and counts.dedupe is not None
    assert totals.aggregate.columns == ["user_id", "window_start", "window_end", "amount_cents", "payments", "ts_max"]
    assert totals.dedupe.key == counts.dedupe.key == ["event_id"]


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
        (WINDOWS, "emit:", "emit:", ""),
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
        (PLAIN, ", order: ts", "", "plain.yaml:10: sinks.newest.order is missing."),
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
        (WINDOWS, "key: [user_id, window_start]", "key: [user_id, window_start], purge_deleted_after: 30 days", "sinks.lake.purge_deleted_after is '2592000 seconds', but no result deletes its window: leave it out."),
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
