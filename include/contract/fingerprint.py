"""The spec hash and the snapshot of a stream (P1.4): which rows a driver would make, and exactly by what it was started."""

import hashlib
import json
from typing import Any

from include.contract.catalog import Stream
from include.contract.stream_spec import RecordSchema, StreamSpec

HASH_LENGTH = 16
OF_TABLES = {"cluster_by", "schema_changes", "purge_deleted_after"}
OF_TRANSACTIONS = {"compression", "create", "slots", "slot_within", "transaction_timeout"}
NOT_OF_ROWS = {"begin", *OF_TABLES, *OF_TRANSACTIONS}  # settings of a sink that change no row
HASH_VERSION = 2  # raised when a default or a fixed setting of the session changes rows: defaults are left out of the hash


def spec_hash(stream: Stream) -> str:
    """Covers what changes rows: topic, decoding, schema, where, select, keep, the sinks' mapping. Not sizes, trigger, health."""
    spec = stream.spec
    rows = {
        "version": HASH_VERSION,
        **_judgement(stream),
        "where": spec.where,
        "select": spec.select,
        "keep": spec.keep,
        "sinks": {
            name: sink.model_dump(mode="json", exclude_defaults=True, exclude=NOT_OF_ROWS) for name, sink in spec.sinks.items()
        },
    }
    return _hash(rows)


def judging_hash(stream: Stream) -> str:
    """Covers what makes a record bad: a file with another sink or another `where` quarantines nothing a second time (P3.3)."""
    return _hash({"version": HASH_VERSION, **_judgement(stream)})


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


def _hash(value: Any) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:HASH_LENGTH]


def _canonical(value: Any) -> str:
    """Keys in the order of the files where order is meaning (columns), so not sorted."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
