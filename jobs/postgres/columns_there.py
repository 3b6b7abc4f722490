"""The columns that a table of PostgreSQL has, as far as it matters whether a row would come out of them as it went in."""

from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor
from pyspark.sql.types import ArrayType, DecimalType

from jobs.postgres.text_forms import TIMESTAMP, TextForm
from jobs.postgres.wanted_table import WantedColumn, WantedTable

WIDER = (("smallint", "integer", "bigint", "numeric"), ("real", "double precision"))  # each holds all that stand before it
TABLES = ("r", "p")  # kinds of relations: plain and partitioned
OFFSET = 4  # by which PostgreSQL moves lengths and precisions up
SCALE_BITS, SCALE_SIGN = 0x7FF, 0x400  # of the number in which it keeps precision and scale of a numeric, the scale below


@dataclass(frozen=True)
class ColumnThere:
    type: str  # without its length or precision
    digits: int | None  # after the point, of a numeric or an array of them that has a limit; below 0 it rounds to hundreds
    length: int | None  # of a text that has a limit
    not_null: bool
    is_filled: bool  # by a default or the database itself
    own_value: str  # EXPRESSION or IDENTITY: the database takes no value for it
    is_short_time: bool  # with fewer than six digits after the second

    def rounds(self, form: TextForm) -> bool:
        """Where PostgreSQL would change a value without a word, and no check of ours is made row by row."""
        element = form.spark.elementType if isinstance(form.spark, ArrayType) else None
        least = element.scale if isinstance(element, DecimalType) else 0
        return self.is_short_time or (self.digits is not None and self.digits < least)


def columns_there(cursor: Cursor, wanted: WantedTable) -> dict[str, ColumnThere]:
    """Empty if there is no such table."""
    cursor.execute(
        "SELECT a.attname, format_type(a.atttypid, NULL), a.atttypmod, a.attnotnull,"
        " a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> '',"
        " CASE WHEN a.attgenerated <> '' THEN 'EXPRESSION' WHEN a.attidentity = 'a' THEN 'IDENTITY' ELSE '' END"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped",
        [wanted.place.schema, wanted.place.name, list(TABLES)],
    )
    return {name: _column(kind, modifier, *facts) for name, kind, modifier, *facts in cursor.fetchall()}


def _column(kind: str, modifier: int, not_null: bool, is_filled: bool, own_value: str) -> ColumnThere:
    limit = modifier - OFFSET if modifier >= OFFSET else None
    digits = ((limit & SCALE_BITS) ^ SCALE_SIGN) - SCALE_SIGN if limit is not None and kind in ("numeric", "numeric[]") else None
    length = limit if kind == "character varying" else None
    return ColumnThere(kind, digits, length, not_null, is_filled, own_value, kind == TIMESTAMP and 0 <= modifier < 6)


def digits_to_check(column: WantedColumn, there: ColumnThere) -> int | None:
    """Where a value may have more digits after the point than the table keeps, which PostgreSQL would round away."""
    if there.digits is None or not isinstance(column.form.spark, DecimalType) or column.form.spark.scale <= there.digits:
        return None
    return there.digits


def holds_every_value(column: WantedColumn, there: ColumnThere) -> bool:
    """Of the stream's type, but for a number with too many digits before the point: so only what they add up to is refused."""
    ours = column.form.new.partition("(")[0]
    widths = next((kinds for kinds in WIDER if ours in kinds), (ours,))
    is_wide_enough = there.type in widths[widths.index(ours) :]
    return is_wide_enough and there.length is None and digits_to_check(column, there) is None
