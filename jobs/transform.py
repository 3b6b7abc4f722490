"""`where`, `select` and `keep` of a stream file, on decoded records. Row by row: every good record comes out, once."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.catalog import Stream
from include.contract.identity import READABLE_COLUMNS


def transform(decoded: DataFrame, stream: Stream) -> DataFrame:
    """The coordinates, the stream's columns, and `_filtered`: true where `where` is not true, NULL included, as in SQL."""
    spec = stream.spec
    good = decoded.where(F.col("_reason").isNull()).select(*READABLE_COLUMNS, "_record.*")
    passes = F.coalesce(F.expr(spec.where), F.lit(False)) if spec.where is not None else F.lit(True)
    kept = spec.keep if spec.keep is not None else list(stream.schema.fields)
    added = [F.expr(text).alias(name) for name, text in spec.select.items()]
    return good.select(*READABLE_COLUMNS, *kept, *added, (~passes).alias("_filtered"))
