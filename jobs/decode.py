"""Turns Kafka values into typed columns, with one parse per record, and tells exactly which records cannot be turned.

Nothing is lost and nothing throws: a record comes out with `_record` filled, or with NULL there. Why it could not be
turned is `explain`'s, which looks at bad records only.
"""

import re
import secrets
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.contract.catalog import Stream

CORRUPT, EXACT = "_corrupt", "_exact"
DIGITS_OF_A_DOUBLE = 15  # that it holds for certain
MARK = f"m{secrets.token_hex(8)}"  # of this process; nobody who sends records can know it
STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    # Spark's defaults accept more than JSON.
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


# Read as text and cast by us, at the top level: Spark's own JSON parser fills a time without a date with today's, takes a number
# for a time in seconds, and needs half a minute for the decimal 1e20000000.
DECIMAL = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$"
BY_TEXT = {
    **dict.fromkeys(("decimal", "dec", "numeric"), DECIMAL),
    "date": r"^[0-9]{4,6}-",
    "timestamp": r"^[0-9]{4,6}-",
    "timestamp_ntz": r"^[0-9]{4,6}-",
}


def decode(records: DataFrame, stream: Stream) -> DataFrame:
    """Adds `_record`, a struct of the schema's fields, to records that have a binary `value`.

    Spark's parser stops after the first value of a text and never sees what follows it. So the value is framed as
    {mark: [value, {mark: true}]}: both elements must come out, and no value can close the frame, for it cannot know the
    mark. The root is an object because only there Spark tells of a field that did not fit its type.
    """
    text = F.col("value").cast("string")
    framed = F.concat(F.lit(f'{{"{MARK}":['), text, F.lit(f',{{"{MARK}":true}}]}}'))
    shape = f"{MARK} array<struct<{fields_as_read(stream, ': ')}, {MARK}: boolean>>, {CORRUPT} string"
    elements = F.col(f"_parsed.{MARK}")
    value, end = F.get(elements, F.lit(0)), F.get(elements, F.lit(1))  # NULL beyond the array's end, where [] would throw
    columns = [_column(value[name], name, field.type).alias(name) for name, field in stream.schema.fields.items()]
    is_framed = (F.size(elements) == 2) & end[MARK] & value.isNotNull()
    is_good = reduce(and_, [F.col(f"_parsed.{CORRUPT}").isNull(), is_framed, *_rules(value, text, stream)])
    return (  # step by step, so that nothing is computed twice
        _with_exact_numbers(records, text, stream)
        .withColumn("_parsed", F.from_json(framed, shape, STRICT))
        .withColumn("_typed", F.struct(*columns))
        .withColumn("_record", F.coalesce(F.when(is_good, F.col("_typed")), _tombstone(stream)))
        .drop("_parsed", "_typed", EXACT)
    )


def _tombstone(stream: Stream) -> Column:
    """Where tombstones delete: a record of Kafka's key alone; NULL if that is no value of its field."""
    key, text = stream.spec.tombstone_key, F.col("_key").cast("string")
    if key is None:
        return F.lit(None)
    value = F.when(F.is_valid_utf8(text), typed(text, stream.schema.fields[key].type).try_cast(stream.schema.fields[key].type))
    fields = [
        (value if name == key else F.lit(None)).cast(field.type).alias(name) for name, field in stream.schema.fields.items()
    ]
    return F.when(F.col("value").isNull() & value.isNotNull(), F.struct(*fields))


def _with_exact_numbers(records: DataFrame, text: Column, stream: Stream) -> DataFrame:
    """A second parse, where a decimal may have more digits than a double: Spark reads a number as text by way of a double."""
    is_needed = any(_is_long_decimal(field.type) for field in stream.schema.fields.values())
    return records.withColumn(EXACT, F.try_parse_json(text)) if is_needed else records


def _column(as_read: Column, name: str, kind: str) -> Column:
    as_typed = typed(as_read, kind)
    return F.when(as_typed.isNotNull(), F.try_variant_get(EXACT, f"$.{name}", kind)) if _is_long_decimal(kind) else as_typed


def _is_long_decimal(kind: str) -> bool:
    digits = re.fullmatch(r"(?i)\s*(?:decimal|dec|numeric)\s*\(\s*([0-9]+).*", kind)
    return digits is not None and int(digits[1]) > DIGITS_OF_A_DOUBLE


def fields_as_read(stream: Stream, between: str) -> str:
    """The schema as it is given to Spark's parser."""
    kinds = {name: "string" if by_text(field.type) else field.type for name, field in stream.schema.fields.items()}
    return ", ".join(f"`{name}`{between}{kind}" for name, kind in kinds.items())


def by_text(kind: str) -> str | None:
    """The pattern of a type that is read as text."""
    return BY_TEXT.get(kind.lower().partition("(")[0].strip())


def typed(as_read: Column, kind: str) -> Column:
    """NULL where the text is none of this type."""
    pattern = by_text(kind)
    return F.when(as_read.rlike(pattern), as_read.try_cast(kind)) if pattern else as_read


def _rules(value: Column, text: Column, stream: Stream) -> list[Column]:
    settings, fields = stream.spec.decode, stream.schema.fields
    required = [F.col(f"_typed.{name}").isNotNull() for name, field in fields.items() if field.required]
    fits = [
        value[name].isNull() | F.col(f"_typed.{name}").isNotNull()
        for name, field in fields.items()
        if by_text(field.type) and not field.required
    ]
    rules = [F.octet_length("value") <= settings.max_value_bytes, F.is_valid_utf8(text), *required, *fits]
    if settings.extra_fields == "quarantine":
        known = F.array(*(F.lit(name) for name in fields))
        rules.append(F.size(F.array_except(F.json_object_keys(text), known)) == 0)
    return rules
