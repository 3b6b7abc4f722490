"""The spec hash and the snapshot of a stream (P1.4): which rows a driver would make, and exactly by what it was started."""

import hashlib
import json
import re
from typing import Any

from include.contract.catalog import Stream
from include.contract.stream_spec import RecordSchema, StreamSpec

HASH_LENGTH = 16
OF_TABLES = {"cluster_by", "schema_changes", "purge_deleted_after"}
OF_TRANSACTIONS = {"compression", "create", "slots", "slot_within", "transaction_timeout"}
NOT_OF_ROWS = {"begin", *OF_TABLES, *OF_TRANSACTIONS}  # settings of a sink that change no row
HASH_VERSION = 2  # raised when a default or a fixed setting of the session changes rows: defaults are left out of the hash


def spec_hash(stream: Stream) -> str:
    """Covers what changes rows: topic, decoding, schema, where, select, keep, dedupe, aggregate, late, the sinks' mapping.
    Not sizes, trigger, health."""
    spec = stream.spec
    rows = {
        "version": HASH_VERSION,
        **_judgement(stream),
        "where": spec.where,
        "select": spec.select,
        "keep": spec.keep,
        **_stateful(spec),
        **({"late": spec.late} if spec.quarantines_late else {}),
        "sinks": {
            name: sink.model_dump(mode="json", exclude_defaults=True, exclude=NOT_OF_ROWS) for name, sink in spec.sinks.items()
        },
    }
    return _hash(rows)


def judging_hash(stream: Stream) -> str:
    """Covers what makes a record bad: a file with another sink or another `where` quarantines nothing a second time (P3.3).
    Behind a stateful operator `where` and `select` decide which records are asked for their keys and event time."""
    return _hash({"version": HASH_VERSION, **_judgement(stream), **_asked(stream.spec)})


def state_hash(stream: Stream) -> str:
    """Covers what a stateful stream's state is made by: a checkpoint of another hash is not continued (P2). Not the sinks."""
    spec = stream.spec
    made_by = {"where": spec.where, "select": spec.select, "keep": spec.keep, **_stateful(spec)}
    return _hash({"version": HASH_VERSION, **_judgement(stream), **made_by})


def time_hash(stream: Stream) -> str | None:
    """Covers what a stateful stream's event time is made of."""
    if stream.spec.watermark is None:
        return None
    name = stream.spec.watermark.event_time
    made = stream.spec.select.get(name)
    fields = {field: of for field, of in _judgement(stream)["schema"].items() if re.search(rf"\b{field}\b", made or name)}
    return _hash({"event_time": name, "made": made, "fields": fields})


def snapshot(stream: Stream) -> str:
    """Everything a driver runs by, as text that is the same for the same files."""
    return _canonical(
        {
            "stream": stream.name,
            "spec": stream.spec.model_dump(mode="json", by_alias=True),
            "schema": stream.schema.model_dump(mode="json", by_alias=True),
        }
    )


def from_snapshot(text: str) -> Stream:
    kept = json.loads(text)
    return Stream(kept["stream"], StreamSpec.model_validate(kept["spec"]), RecordSchema.model_validate(kept["schema"]))


def _judgement(stream: Stream) -> dict[str, Any]:
    return {
        "topic": stream.spec.source.topic,
        "decode": stream.spec.decode.model_dump(mode="json", exclude_defaults=True),
        "schema": {name: field.model_dump(mode="json", exclude_defaults=True) for name, field in stream.schema.fields.items()},
    }


def _stateful(spec: StreamSpec) -> dict[str, Any]:
    """Only what is there: the hashes of other streams are as old as their sinks."""
    parts = {"dedupe": spec.dedupe, "aggregate": spec.aggregate}
    return {name: part.model_dump(mode="json", exclude_defaults=True) for name, part in parts.items() if part is not None}


def _asked(spec: StreamSpec) -> dict[str, Any]:
    if spec.watermark is None:
        return {}
    keys = {"dedupe": spec.dedupe.key if spec.dedupe else None, "aggregate": spec.aggregate.key if spec.aggregate else None}
    asked = {"where": spec.where, "select": spec.select, "keys": keys, "event_time": spec.watermark.event_time}
    return {"asked": asked, **({"late": _late(spec)} if spec.quarantines_late else {})}


def _late(spec: StreamSpec) -> dict[str, Any]:
    """Behind dedupe a record is late by its own time, without it when the last of its windows is closed."""
    judge = spec.dedupe or spec.aggregate
    return judge.model_dump(mode="json", include={"within", "window", "slide"}) if judge else {}


def _hash(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:HASH_LENGTH]


def _canonical(value: Any) -> str:
    """Keys in the order of the files where order is meaning (columns), so not sorted."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
