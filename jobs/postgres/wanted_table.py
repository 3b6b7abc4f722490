"""The table that a sink needs: its columns from the stream's rows, its key, and the statements that would make it or mend it."""

from dataclasses import dataclass

from psycopg2.sql import SQL, Composable, Composed, Identifier
from pyspark.sql import types as T

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.places import DatabaseTable
from include.contract.stream_spec import PostgresSink, PostgresTotals, PostgresUpsert
from jobs.postgres.text_forms import TextForm, text_form

WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


class TypeRefused(StreamFailure):
    """A column has a type that this sink does not take."""

    exit_class = ExitClass.CONFIGURATION


@dataclass(frozen=True)
class WantedColumn:
    name: str
    form: TextForm
    not_null: bool = False


@dataclass(frozen=True)
class WantedTable:
    place: DatabaseTable
    columns: tuple[WantedColumn, ...]
    key: tuple[str, ...]
    has_coordinates: bool  # one row of the table is one record

    @property
    def name(self) -> Composed:
        return SQL("{}.{}").format(Identifier(self.place.schema), Identifier(self.place.name))

    def to_make(self) -> list[Composed]:
        columns: list[Composable] = [_definition(column) for column in self.columns]
        key = SQL("PRIMARY KEY ({})").format(names(self.key))
        made = [SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self.name, SQL(", ").join([*columns, key]))]
        if self.has_coordinates:  # so that a window of offsets is found without reading the whole table
            made.append(
                SQL("CREATE INDEX IF NOT EXISTS {} ON {} (_topic_epoch, _partition, _offset)").format(
                    Identifier(f"{self.place.name[:40]}_coordinates"), self.name
                )
            )
        return made


def names(columns: tuple[str, ...] | list[str]) -> Composed:
    return SQL(", ").join(map(Identifier, columns))


def _definition(column: WantedColumn) -> Composed:
    ending = " NOT NULL" if column.not_null else ""
    return SQL("{} {}").format(Identifier(column.name), SQL(column.form.new + ending))


def wanted_table(place: DatabaseTable, sink: PostgresSink, shape: T.StructType) -> WantedTable:
    """`shape`: of the stream's rows, our own columns among them."""
    types = {field.name: field.dataType for field in shape}
    if isinstance(sink, PostgresTotals):
        key = [_column(name, types[name], place, not_null=True) for name in sink.key]
        return WantedTable(place, (*key, *_totals(sink, types, place)), tuple(sink.key), has_coordinates=False)
    needed = {*sink.key, *([sink.order] if isinstance(sink, PostgresUpsert) and sink.order else [])}
    columns = (_column(name, kind, place, not_null=name in needed) for name, kind in types.items())
    return WantedTable(place, tuple(columns), tuple(sink.key), has_coordinates=True)


def _totals(sink: PostgresTotals, types: dict[str, T.DataType], place: DatabaseTable) -> list[WantedColumn]:
    counted = [WantedColumn(sink.count, _form(T.LongType(), sink.count, place), not_null=True)] if sink.count else []
    return [
        *(WantedColumn(name, _summed(name, types[name], place)) for name in sink.sum),
        *counted,
        *(WantedColumn(f"{name}_min", _compared(name, types[name], place)) for name in sink.min),
        *(WantedColumn(f"{name}_max", _compared(name, types[name], place)) for name in sink.max),
    ]


def _summed(name: str, spark: T.DataType, place: DatabaseTable) -> TextForm:
    if isinstance(spark, WHOLE):
        return TextForm(T.LongType(), "bigint", frozenset({"bigint", "numeric"}))
    if isinstance(spark, T.DecimalType):
        return TextForm(T.DecimalType(38, spark.scale), "numeric", frozenset({"numeric"}))
    raise _refused(name, spark, place, "only whole numbers and decimals add up to the same total in every order")


def _compared(name: str, spark: T.DataType, place: DatabaseTable) -> TextForm:
    form = _form(spark, name, place)
    if not isinstance(spark, (*WHOLE, T.DecimalType, T.FloatType, T.DoubleType, T.StringType, T.DateType, T.TimestampType)):
        raise _refused(name, spark, place, "of two values of this type the database does not know the lower and the higher")
    return TextForm(spark, form.new, form.accepted - {"uuid", "json", "jsonb"})


def _column(name: str, spark: T.DataType, place: DatabaseTable, *, not_null: bool = False) -> WantedColumn:
    return WantedColumn(name, _form(spark, name, place), not_null)


def _form(spark: T.DataType, name: str, place: DatabaseTable) -> TextForm:
    form = text_form(spark)
    if form is None:
        raise _refused(name, spark, place, "a time without a zone means another instant elsewhere: give it one in `select`")
    return form


def _refused(name: str, spark: T.DataType, place: DatabaseTable, why: str) -> TypeRefused:
    return TypeRefused(
        f"Column {name} is {spark.simpleString()}, which {place} does not take: {why}.",
        state="Nothing was written.",
        next_step="Change the column in the stream file, then start the stream again.",
    )
