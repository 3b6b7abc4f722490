"""What is expected of a window's numbers, from the stream file: the small frames, and the expectations on them. Plain data.

`validation` hands them to Great Expectations, which judges. Each expectation is one sentence that is true of balanced books.
"""

from dataclasses import dataclass
from typing import Any

from include.contract.catalog import Stream
from include.contract.stream_spec import (
    DeltaAppend,
    DeltaMerge,
    KafkaOutput,
    LakeTable,
    PostgresInsertNew,
    PostgresTotals,
    PostgresUpsert,
    Sink,
)
from include.control.window_contents import Audited, Booked, Counted, Measured
from include.control.windows import Window


@dataclass(frozen=True)
class Expected:
    """Two columns that are equal in each row; or, without a second one, a column that is at most a number."""

    sentence: str
    column: str
    other: str | None = None
    at_most: float = 0


@dataclass(frozen=True)
class Frame:
    """A small table, one row per partition or one for the whole window, and what is expected of it."""

    name: str
    rows: list[dict[str, Any]]
    expected: list[Expected]


def frames(stream: Stream, window: Window, audited: Audited, measured: Measured) -> list[Frame]:
    compacted, sink = measured.compacted, stream.spec.sinks[window.sink]
    return [
        Frame(
            "partitions",
            _per_partition(window, audited, measured),
            _of_partitions(sink, compacted=compacted, is_stateful=stream.spec.is_stateful),
        ),
        Frame("window", [_of_whole(audited, measured)], _of_window(stream, sink, has_duplicates=measured.duplicates is not None)),
    ]


def _of_partitions(sink: Sink, *, compacted: bool, is_stateful: bool = False) -> list[Expected]:
    """In a compacted topic Kafka has fewer records than it had (P7.3): there the ledger says how many rows there must be."""
    always = [
        Expected("what was read is accounted for", "booked_read", "booked_accounted"),
        Expected(
            "every quarantined record that is booked stands in the quarantine once", "booked_quarantined", "quarantine_rows"
        ),
        Expected("no record differs between Kafka and the tables", "differing"),
        *_of_kind(sink),
    ]
    against_kafka = [
        Expected("every record in Kafka is booked", "kafka_read", "booked_read"),
        Expected("every bad record in Kafka is quarantined once", "kafka_bad", "quarantine_rows"),
        Expected("every record that is filtered is booked so", "kafka_filtered", "booked_filtered"),
        *([Expected("every late record is booked so", "kafka_late", "booked_late")] if is_stateful else []),
        *_of_kind_against_kafka(sink),
    ]
    return always if compacted else [*always, *against_kafka]


def _of_kind(sink: Sink) -> list[Expected]:
    once = Expected("no coordinates stand in the table twice", "table_rows", "table_coordinates")
    all_there = Expected("every delivery that is booked stands in the table", "booked_delivered", "table_rows")
    rejects = Expected("every rejected record that is booked stands in the rejects once", "booked_rejected", "reject_rows")
    match sink:
        case DeltaAppend():
            return [once, all_there]
        case DeltaMerge():  # later rows may have replaced some
            return [once, Expected("no more rows stand in the table than were delivered", "not_booked_rows"), rejects]
        case PostgresInsertNew() | KafkaOutput():
            return [once, all_there, rejects]
        case PostgresUpsert():  # a later window may have replaced a row of this one
            return [once, rejects]
        case PostgresTotals():
            return [rejects]


def _of_kind_against_kafka(sink: Sink) -> list[Expected]:
    if isinstance(sink, DeltaAppend):
        return [
            Expected("every record in Kafka that should be a row is one", "kafka_good", "table_rows"),
            Expected("rows have the values that Kafka has", "kafka_checksum", "table_checksum"),
        ]
    booked = Expected("every good record in Kafka is booked so", "kafka_good_or_copy", "booked_good")
    if isinstance(sink, KafkaOutput):
        return [booked, Expected("outputs have the values that Kafka's records give", "kafka_checksum", "table_checksum")]
    if isinstance(sink, DeltaMerge):
        return [
            booked,
            Expected("every record that the sink cannot hold is booked as rejected", "kafka_rejected", "booked_rejected"),
        ]
    return [booked]


def _of_window(stream: Stream, sink: Sink, *, has_duplicates: bool = False) -> list[Expected]:
    """Only what is measured: totals have no rows of records, and PostgreSQL does not tell what others did to a table."""
    unique, fresh_within = stream.spec.reconcile.unique, stream.spec.reconcile.fresh_within
    has_log, has_records = isinstance(sink, LakeTable), not isinstance(sink, PostgresTotals)
    others = [Expected("nobody else added or removed rows", "rows_of_others")] if has_log else []
    keys = [Expected(f"no {', '.join(unique)} is there twice", "repeated_keys")] if unique and has_records else []
    again = Expected("every duplicate in Kafka is booked so", "kafka_duplicates", "booked_duplicates")
    return [
        Expected("the ledger has no gap and no overlap", "gaps"),
        *([again] if has_duplicates else []),
        *others,
        Expected("log, ledger and table agree", "findings"),
        *keys,
        Expected("what waits has not waited for long", "behind_seconds", at_most=fresh_within.total_seconds()),
    ]


def _per_partition(window: Window, audited: Audited, measured: Measured) -> list[dict[str, Any]]:
    """Of those that were counted again."""
    rows = []
    for number, counted in sorted(measured.counted.items()):
        start, end = window.ranges.get(number, (0, 0))
        booked = audited.booked.get(number, Booked())
        not_booked = max(0, counted.table_rows - booked.delivered)
        numbers = {**_booked(booked), **_counted(number, counted, measured), "not_booked_rows": not_booked}
        rows.append({"partition": number, "start": start, "end": end, **numbers})
    return rows


def _booked(booked: Booked) -> dict[str, int]:
    names = ("read", "delivered", "quarantined", "rejected", "filtered", "late")
    good = booked.delivered + booked.rejected + booked.superseded + booked.duplicates
    return {
        **{f"booked_{name}": getattr(booked, name) for name in names},
        "booked_good": good,
        "booked_accounted": booked.accounted,
    }


def _counted(number: int, counted: Counted, measured: Measured) -> dict[str, Any]:
    differing = sum(one.records for one in measured.differences if one.partition == number)
    good_or_copy = counted.kafka_good + counted.kafka_duplicates
    return {**counted.model_dump(), "kafka_good_or_copy": good_or_copy, "differing": differing}


def _of_whole(audited: Audited, measured: Measured) -> dict[str, Any]:
    return {
        "gaps": audited.gaps,
        "rows_of_others": audited.rows_of_others,
        "findings": len(audited.findings) + len(measured.findings),
        "booked_duplicates": sum(audited.booked.get(number, Booked()).duplicates for number in measured.counted),
        "kafka_duplicates": measured.duplicates,
        "repeated_keys": measured.keys - measured.distinct_keys,
        "behind_seconds": measured.behind_seconds,
        "waiting": measured.waiting,
    }
