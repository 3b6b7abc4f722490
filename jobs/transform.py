"""`where`, `select` and `keep` of a stream file, on decoded records. Row by row: every record comes out, once, with its fate."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from include.contract.catalog import Stream
from include.contract.identity import READABLE_COLUMNS
from jobs.decode import decode
from jobs.unfit import mark_unfit

RAW = ("value", "_key", "_headers")  # what a bad record is kept with, beside its coordinates


def rows_of(records: DataFrame, stream: Stream) -> DataFrame:
    """Every record with its fate, its row if it has one, and its raw parts."""
    return transform(decode(records, stream), stream, also=RAW)


def transform(decoded: DataFrame, stream: Stream, also: tuple[str, ...] = ()) -> DataFrame:
    """The coordinates, the stream's columns, and `_bad`, `_filtered` and `_tombstone`; a record that is neither of the first
    two is delivered.

    An expression is computed only where it matters: `where` on good records, `select` on those that pass it, so that
    `b <> 0` protects `a / b`; neither on a tombstone, which has nothing to compute with.
    """
    spec = stream.spec
    kept = spec.keep if spec.keep is not None else list(stream.schema.fields)
    fates = [_is_bad(stream).alias("_bad"), _is_good().alias("_good"), (_is_good() & _has_no_value()).alias("_tombstone")]
    fields = decoded.select(*READABLE_COLUMNS, *also, "_record.*", *fates)
    judged = fields.withColumn("_passes", F.col("_good") & ~F.col("_tombstone") & _passes(stream))
    added = [F.when(F.col("_passes"), F.expr(text)).alias(name) for name, text in spec.select.items()]
    is_filtered = ~F.col("_bad") & ~F.col("_tombstone") & ~F.col("_passes")
    rows = judged.select(*READABLE_COLUMNS, *also, *kept, *added, "_bad", is_filtered.alias("_filtered"), "_tombstone")
    return mark_unfit(rows, stream) if spec.is_stateful else rows


def bad_records(decoded: DataFrame, stream: Stream) -> DataFrame:
    return decoded.where(_is_bad(stream))


def _is_good() -> Column:
    return F.col("_record").isNotNull()


def _is_bad(stream: Stream) -> Column:
    """A tombstone is bad, filtered, or a record that deletes, as the file says."""
    if stream.spec.decode.tombstones == "filter":
        return ~_is_good() & ~_has_no_value()
    return ~_is_good()


def _has_no_value() -> Column:
    return F.col("value").isNull()


def _passes(stream: Stream) -> Column:
    """NULL does not pass, as in SQL."""
    where = stream.spec.where
    return F.coalesce(F.when(F.col("_good"), F.expr(where)), F.lit(False)) if where is not None else F.lit(True)
