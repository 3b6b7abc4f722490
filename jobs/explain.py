"""Says of each record that `decode` could not turn why not. Of several faults the first in the order of `Reason` is told.

Slow, a second parse with many questions, so it is asked about bad records only.
"""

from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.contract.catalog import Stream
from include.contract.stream_spec import Decode
from jobs.decode import CORRUPT, STRICT, fields_as_read, typed

FIELDS_TOLD = 5


class Reason(StrEnum):
    TOMBSTONE = "tombstone"
    EMPTY = "empty"
    TOO_BIG = "too_big"
    INVALID_UTF8 = "invalid_utf8"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    WRONG_TYPE = "wrong_type"
    MISSING_FIELD = "missing_field"
    EXTRA_FIELD = "extra_field"


def explain(bad_records: DataFrame, stream: Stream) -> DataFrame:
    """Adds `_reason` and `_detail`, neither ever NULL."""
    parsed = F.from_json(F.col("value").cast("string"), f"{fields_as_read(stream, ' ')}, {CORRUPT} string", STRICT)
    read = bad_records.withColumns({"_parsed": parsed, "_framed": _framed()})
    return (
        read.withColumn("_fault", _first_fault(stream))
        .withColumns({"_reason": F.col("_fault.reason"), "_detail": F.col("_fault.detail")})
        .drop("_parsed", "_framed", "_fault")
    )


def _framed() -> Column:
    """[value, its own hash]: the parser must come to the hash, which no value can hold itself."""
    text = F.col("value").cast("string")
    return F.try_parse_json(F.concat(F.lit("["), text, F.lit(',"'), F.md5("value"), F.lit('"]')))


def _first_fault(stream: Stream) -> Column:
    settings = stream.spec.decode
    size, text = F.octet_length("value"), F.col("value").cast("string")
    kind = F.schema_of_variant(_in_value("$[0]", "variant"))
    is_one_value = F.coalesce(_in_value("$[1]", "string") == F.md5("value"), F.lit(False))
    wrong, missing, extra = _wrong_fields(stream), _missing_fields(stream), _extra_fields(stream)
    faults = [
        (Reason.TOMBSTONE, F.col("value").isNull(), F.lit("the value is null")),
        (Reason.EMPTY, size == 0, F.lit("the value has no bytes")),
        (Reason.TOO_BIG, size > settings.max_value_bytes, _too_big(size, settings)),
        (Reason.INVALID_UTF8, ~F.is_valid_utf8(text), F.lit("the value is not UTF-8 text")),
        (Reason.NOT_JSON, ~is_one_value, F.lit("the value is not one JSON value, or has a key twice")),
        (Reason.NOT_AN_OBJECT, ~kind.startswith("OBJECT"), F.concat(F.lit("the value is JSON of type "), kind)),
        (Reason.WRONG_TYPE, F.size(wrong) > 0, _told(wrong)),
        (Reason.MISSING_FIELD, F.size(missing) > 0, _told(missing)),
    ]
    if settings.extra_fields == "quarantine":
        faults.append((Reason.EXTRA_FIELD, F.size(extra) > 0, _told(extra)))
    return reduce(_otherwise, reversed(faults), _fault(Reason.WRONG_TYPE, F.lit("a field does not fit its type")))


def _otherwise(rest: Column, fault: tuple[Reason, Column, Column]) -> Column:
    reason, applies, detail = fault
    return F.when(applies, _fault(reason, detail)).otherwise(rest)


def _fault(reason: Reason, detail: Column) -> Column:
    return F.struct(F.lit(reason.value).alias("reason"), detail.alias("detail"))


def _wrong_fields(stream: Stream) -> Column:
    """Fields that the JSON has but the columns have not: another type, or a number that does not fit."""
    fields = stream.schema.fields
    return _names({name: _in_json(name).isNotNull() & _typed(name, stream).isNull() for name in fields})


def _missing_fields(stream: Stream) -> Column:
    required = [name for name, field in stream.schema.fields.items() if field.required]
    return _names({name: _typed(name, stream).isNull() for name in required})


def _typed(name: str, stream: Stream) -> Column:
    return typed(F.col(f"_parsed.{name}"), stream.schema.fields[name].type)


def _extra_fields(stream: Stream) -> Column:
    keys = F.map_keys(_in_value("$[0]", "map<string,variant>"))
    return F.array_except(keys, F.array(*(F.lit(name) for name in stream.schema.fields)))


def _in_json(name: str) -> Column:
    """Null also where the JSON says null."""
    found = _in_value(f"$[0].{name}", "variant")
    return F.when(~F.is_variant_null(found), found)


def _in_value(path: str, kind: str) -> Column:
    return F.try_variant_get(F.col("_framed"), path, kind)


def _names(conditions: dict[str, Column]) -> Column:
    named = [F.when(applies, F.lit(name)) for name, applies in conditions.items()]
    return F.array_compact(F.array(*named)) if named else F.array().cast("array<string>")


def _told(fields: Column) -> Column:
    return F.concat(F.lit("field "), F.array_join(F.slice(fields, 1, FIELDS_TOLD), ", "))


def _too_big(size: Column, settings: Decode) -> Column:
    return F.concat(
        F.lit("the value has "), size.cast("string"), F.lit(f" bytes, at most {settings.max_value_bytes} are allowed")
    )
