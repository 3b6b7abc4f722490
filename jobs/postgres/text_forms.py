"""How values travel to PostgreSQL: each as text, made by Spark, cast by the database when the row is put into its table.

So a value that the database does not take is refused there, with its row and its message, and never in the middle of a COPY.
"""

from dataclasses import dataclass

from psycopg2.sql import SQL, Composable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from jobs.json_form import JSON_OPTIONS

PLACES = ("_partition", "_offset")
TEXTS = frozenset({"text", "character varying"})  # not character(n), which pads what it is given
TIMESTAMP = "timestamp with time zone"
SIMPLE: dict[type[T.DataType], tuple[str, frozenset[str]]] = {  # what a new table gets, and what an existing one may have
    T.StringType: ("text", TEXTS | {"jsonb", "json", "uuid"}),
    T.BooleanType: ("boolean", frozenset({"boolean"})),
    T.ByteType: ("smallint", frozenset({"smallint", "integer", "bigint", "numeric"})),
    T.ShortType: ("smallint", frozenset({"smallint", "integer", "bigint", "numeric"})),
    T.IntegerType: ("integer", frozenset({"smallint", "integer", "bigint", "numeric"})),
    T.LongType: ("bigint", frozenset({"smallint", "integer", "bigint", "numeric"})),
    T.FloatType: ("real", frozenset({"real", "double precision"})),
    T.DoubleType: ("double precision", frozenset({"double precision"})),
    T.DateType: ("date", frozenset({"date"})),
    T.TimestampType: (TIMESTAMP, frozenset({TIMESTAMP})),
    T.BinaryType: ("bytea", frozenset({"bytea"})),
}


@dataclass(frozen=True)
class TextForm:
    """Of one type: as text in Spark; which types of PostgreSQL can hold it."""

    spark: T.DataType
    new: str  # the type that a new table gets
    accepted: frozenset[str]  # types without their length or precision

    def as_text(self, name: str) -> Column:
        column = F.col(name)
        if isinstance(self.spark, T.TimestampType):
            return F.concat(_year_unsigned(name), F.lit("+00"))  # the session's zone is UTC
        if isinstance(self.spark, T.DateType):
            return _year_unsigned(name)
        if isinstance(self.spark, T.BinaryType):
            return F.concat(F.lit("\\x"), F.hex(column))
        if isinstance(self.spark, (T.ArrayType, T.StructType, T.MapType)):
            return F.to_json(column, JSON_OPTIONS)
        return column.cast("string")


def _year_unsigned(name: str) -> Column:
    """Spark writes years above 9999 with a sign, which PostgreSQL does not read. `name`: of a column, checked at load."""
    return F.expr(f"trim(LEADING '+' FROM CAST(`{name}` AS string))")


def text_form(spark: T.DataType) -> TextForm | None:
    """None if PostgreSQL is not given this type: a time without a zone means another instant in each session."""
    if isinstance(spark, T.DecimalType):
        return TextForm(spark, f"numeric({spark.precision},{spark.scale})", frozenset({"numeric"}))
    if isinstance(spark, (T.StructType, T.MapType)):
        return TextForm(spark, "jsonb", frozenset({"jsonb", "json"}))
    if isinstance(spark, T.ArrayType):
        return _array(spark)
    simple = SIMPLE.get(type(spark))
    return TextForm(spark, *simple) if simple else None


def _array(spark: T.ArrayType) -> TextForm | None:
    element = text_form(spark.elementType)
    if element is None:
        return None
    if isinstance(spark.elementType, (T.ArrayType, T.StructType, T.MapType, T.BinaryType)):
        return TextForm(spark, "jsonb", frozenset({"jsonb", "json"}))
    return TextForm(spark, f"{element.new}[]", frozenset({*(f"{one}[]" for one in element.accepted), "jsonb", "json"}))


def from_text(staged: Composable, there: str, digits: int | None = None, length: int | None = None) -> Composable:
    """`there`: the column's type without its length, in the database's own spelling. `digits`: after the point, where the column
    has fewer than the stream. `length`: checked here, for PostgreSQL would cut spaces off that are too many, without a word."""
    if length is not None:
        refused = SQL("({} || ' has more than {} characters')::numeric::text").format(staged, SQL(str(length)))
        too_many_spaces = SQL("length({0}) > {1} AND length(rtrim({0}, ' ')) <= {1}").format(staged, SQL(str(length)))
        return SQL("CASE WHEN {} THEN {} ELSE {} END").format(too_many_spaces, refused, staged)
    if digits is not None:
        refused = SQL("({} || ' has more than {} digits after the point')::numeric").format(staged, SQL(str(digits)))
        return SQL("CASE WHEN scale(trim_scale({0}::numeric)) > {1} THEN {2} ELSE {0}::numeric END").format(
            staged, SQL(str(digits)), refused
        )
    if there.endswith("[]"):
        elements = SQL("ARRAY(SELECT jsonb_array_elements_text({}::jsonb))::{}").format(staged, SQL(there))
        return SQL("CASE WHEN {0} IS NOT NULL THEN {1} END").format(staged, elements)
    return staged if there in TEXTS else SQL("{}::{}").format(staged, SQL(there))


def as_texts(rows: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """The coordinates, then these columns as texts."""
    shape = rows.schema
    return rows.select(*PLACES, *(_form(shape[name]).as_text(name).alias(name) for name in columns))


def _form(field: T.StructField) -> TextForm:
    form = text_form(field.dataType)
    if form is None:
        raise ValueError(f"{field.name} is {field.dataType.simpleString()}, which no wanted table has")
    return form
