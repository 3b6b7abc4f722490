"""Compares a table that is there with the one that a sink needs, and tells every difference with the statement that mends it."""

from dataclasses import dataclass

from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composable, Identifier
from pyspark.sql.types import DecimalType

from jobs.postgres.wanted_table import WantedColumn, WantedTable, names
from jobs.sink import SchemaDiffers

NUMERIC_SHIFT = 16  # PostgreSQL keeps precision and scale of a numeric in one number, scale below, both moved up by 4
NUMERIC_OFFSET = 4


@dataclass(frozen=True)
class ColumnThere:
    type: str  # without its length or precision
    digits: int | None  # after the point, of a numeric that has a limit
    not_null: bool
    is_filled: bool  # by a default or the database itself


def make_or_check(cursor: Cursor, wanted: WantedTable) -> dict[str, ColumnThere]:
    """The columns as they are there. Raises SchemaDiffers with the statements that would mend the table."""
    if not columns_there(cursor, wanted):
        _refuse_without_schema(cursor, wanted)
        for statement in wanted.to_make():
            cursor.execute(statement)
    check_table(cursor, wanted)
    return columns_there(cursor, wanted)


def check_table(cursor: Cursor, wanted: WantedTable) -> None:
    there = columns_there(cursor, wanted)
    if not there:
        return  # it is made at the start
    mends = [
        *(mend for column in wanted.columns for mend in _mend_column(wanted, column, there.get(column.name))),
        *_mend_others(wanted, there),
        *_mend_key(cursor, wanted),
        *_mend_privileges(cursor, wanted),
    ]
    if mends:
        raise _differs(cursor, wanted, mends)


def columns_there(cursor: Cursor, wanted: WantedTable) -> dict[str, ColumnThere]:
    """Empty if there is no such table."""
    cursor.execute(
        "SELECT a.attname, format_type(a.atttypid, NULL), a.atttypmod, a.attnotnull,"
        " a.atthasdef OR a.attidentity <> '' OR a.attgenerated <> ''"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped",
        [wanted.place.schema, wanted.place.name],
    )
    return {
        name: ColumnThere(kind, _digits(kind, modifier), not_null, is_filled)
        for name, kind, modifier, not_null, is_filled in cursor.fetchall()
    }


def _digits(kind: str, modifier: int) -> int | None:
    return (modifier - NUMERIC_OFFSET) % (1 << NUMERIC_SHIFT) if kind == "numeric" and modifier >= NUMERIC_OFFSET else None


def digits_to_check(column: WantedColumn, there: ColumnThere) -> int | None:
    """Where a value may have more digits after the point than the table keeps, which PostgreSQL would round away."""
    if there.digits is None or not isinstance(column.form.spark, DecimalType) or column.form.spark.scale <= there.digits:
        return None
    return there.digits


def _mend_column(wanted: WantedTable, column: WantedColumn, there: ColumnThere | None) -> list[Composable]:
    alter = SQL("ALTER TABLE {} ").format(wanted.name)
    if there is None:
        return [alter + SQL("ADD COLUMN {} {}").format(Identifier(column.name), SQL(column.form.new))]
    if there.type not in column.form.accepted:
        return [alter + SQL("ALTER COLUMN {} TYPE {}").format(Identifier(column.name), SQL(column.form.new))]
    if column.not_null and not there.not_null:
        return [alter + SQL("ALTER COLUMN {} SET NOT NULL").format(Identifier(column.name))]
    return []


def _mend_others(wanted: WantedTable, there: dict[str, ColumnThere]) -> list[Composable]:
    """Columns that the stream does not fill, but that must not be empty: no row would ever be taken."""
    ours = {column.name for column in wanted.columns}
    bare = [name for name, column in there.items() if name not in ours and column.not_null and not column.is_filled]
    return [SQL("ALTER TABLE {} ALTER COLUMN {} DROP NOT NULL").format(wanted.name, Identifier(name)) for name in bare]


def _mend_key(cursor: Cursor, wanted: WantedTable) -> list[Composable]:
    """ON CONFLICT needs a unique index on exactly the key, without a condition."""
    cursor.execute(
        "SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid"
        " AND a.attnum = ANY(i.indkey[0:i.indnkeyatts - 1]) WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indisvalid"
        " AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid",
        [wanted.name.as_string(cursor)],
    )
    if any(set(columns) == set(wanted.key) for (columns,) in cursor.fetchall()):
        return []
    return [SQL("CREATE UNIQUE INDEX ON {} ({})").format(wanted.name, names(wanted.key))]


def _mend_privileges(cursor: Cursor, wanted: WantedTable) -> list[Composable]:
    table = wanted.name.as_string(cursor)
    needed = ("SELECT", "INSERT", "UPDATE")
    cursor.execute(
        "SELECT wanted, current_user FROM unnest(%s) AS wanted WHERE NOT has_table_privilege(%s, wanted)", [list(needed), table]
    )
    return [
        SQL("GRANT {} ON {} TO {}").format(SQL(privilege), wanted.name, Identifier(user)) for privilege, user in cursor.fetchall()
    ]


def _refuse_without_schema(cursor: Cursor, wanted: WantedTable) -> None:
    cursor.execute("SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = %s", [wanted.place.schema])
    may_create = cursor.fetchone()
    schema = Identifier(wanted.place.schema)
    if may_create is None:
        raise _differs(cursor, wanted, [SQL("CREATE SCHEMA {}").format(schema)])
    if may_create == (False,):
        cursor.execute("SELECT current_user")
        (user,) = cursor.fetchone() or ("",)
        raise _differs(cursor, wanted, [SQL("GRANT CREATE ON SCHEMA {} TO {}").format(schema, Identifier(user))])


def _differs(cursor: Cursor, wanted: WantedTable, mends: list[Composable]) -> SchemaDiffers:
    statements = [mend.as_string(cursor) for mend in mends]
    return SchemaDiffers(
        f"{wanted.place} does not fit the stream: {len(statements)} things are missing or different.",
        state="Nothing was written.",
        next_step=f"Mend the table: {'; '.join(statements)}; or give the sink another one.",
        statements=statements,
    )
