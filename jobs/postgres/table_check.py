"""Compares a table that is there with the one that a sink needs, and tells every difference with the statement that mends it.

Differences that a statement of PostgreSQL mends, that is: what is no table at all, or a table that is gone, needs a person.
"""

from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composable, Identifier

from include.contract.exit_class import ExitClass, StreamFailure
from jobs.postgres.columns_there import TABLES, ColumnThere, columns_there
from jobs.postgres.wanted_table import WantedColumn, WantedTable, names
from jobs.sink import SchemaDiffers

PRIVILEGES = ("SELECT", "INSERT", "UPDATE")
BEFORE_EACH_ROW, ON_INSERT_OR_UPDATE = 1 | 2, 4 | 16  # bits of pg_trigger.tgtype


class TableGone(StreamFailure):
    """The database has the tidemark of a table, but not the table."""

    exit_class = ExitClass.SINK_WENT_BACK


def make_or_check(cursor: Cursor, wanted: WantedTable, *, is_new: bool) -> None:
    """A table is made only for a sink that has no tidemark yet."""
    if not check_table(cursor, wanted, is_new=is_new):
        for statement in wanted.to_make():
            cursor.execute(statement)


def check_table(cursor: Cursor, wanted: WantedTable, *, is_new: bool) -> dict[str, ColumnThere]:
    """The columns as they are there; none if the table is still to be made. Raises SchemaDiffers with what would mend it."""
    _check_encoding(cursor, wanted)
    _check_schema(cursor, wanted, "USAGE")
    if not _is_there(cursor, wanted):
        if not is_new:
            raise _gone(wanted)
        _check_schema(cursor, wanted, "CREATE")
        return {}
    if privileges := _mend_privileges(cursor, wanted):
        raise _differs(cursor, wanted, privileges)
    there = columns_there(cursor, wanted)
    mends = [
        *(mend for column in wanted.columns for mend in _mend_column(wanted, column, there.get(column.name))),
        *_mend_others(wanted, there),
        *_mend_key(cursor, wanted),
        *_mend_hands(cursor, wanted),
    ]
    if mends:
        raise _differs(cursor, wanted, mends)
    return there


def _is_there(cursor: Cursor, wanted: WantedTable) -> bool:
    cursor.execute(
        "SELECT c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        [wanted.place.schema, wanted.place.name],
    )
    (kind,) = cursor.fetchone() or (None,)
    if kind is not None and kind not in TABLES:
        raise SchemaDiffers(
            f"{wanted.place} is there, but it is no table: rows could not be put into it together with a tidemark.",
            state="Nothing was written.",
            next_step="Give the sink another table, or move away what has its name.",
        )
    return kind is not None


def _mend_column(wanted: WantedTable, column: WantedColumn, there: ColumnThere | None) -> list[Composable]:
    alter = SQL("ALTER TABLE {} ").format(wanted.name)
    name, kind = Identifier(column.name), SQL(column.form.new)
    if there is None:
        return [alter + SQL("ADD COLUMN {} {}").format(name, kind + SQL(" NOT NULL") if column.not_null else kind)]
    mends: list[Composable] = []
    if there.own_value:
        mends.append(alter + SQL("ALTER COLUMN {} DROP {}").format(name, SQL(there.own_value)))
    if there.type not in column.form.accepted or there.rounds(column.form):
        mends.append(alter + SQL("ALTER COLUMN {0} TYPE {1} USING {0}::{1}").format(name, kind))
    if column.not_null and not there.not_null:
        mends.append(alter + SQL("ALTER COLUMN {} SET NOT NULL").format(name))
    return mends


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


def _mend_hands(cursor: Cursor, wanted: WantedTable) -> list[Composable]:
    """Rules and triggers that may put other rows in than those they are given, or none, and count them as ours."""
    table = wanted.name.as_string(cursor)
    cursor.execute(
        "SELECT 'RULE', rulename FROM pg_rewrite WHERE ev_class = %(table)s::regclass AND ev_type IN ('2', '3')"
        " AND ev_enabled <> 'D' UNION ALL SELECT 'TRIGGER', tgname FROM pg_trigger WHERE tgrelid = %(table)s::regclass"
        " AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & %(before_row)s = %(before_row)s AND tgtype & %(writes)s <> 0",
        {"table": table, "before_row": BEFORE_EACH_ROW, "writes": ON_INSERT_OR_UPDATE},
    )
    return [
        SQL("ALTER TABLE {} DISABLE {} {}").format(wanted.name, SQL(kind), Identifier(name)) for kind, name in cursor.fetchall()
    ]


def _mend_privileges(cursor: Cursor, wanted: WantedTable) -> list[Composable]:
    table = wanted.name.as_string(cursor)
    cursor.execute(
        "SELECT wanted, current_user FROM unnest(%s) AS wanted WHERE NOT has_table_privilege(%s, wanted)",
        [list(PRIVILEGES), table],
    )
    grants: list[Composable] = [
        SQL("GRANT {} ON {} TO {}").format(SQL(privilege), wanted.name, Identifier(user)) for privilege, user in cursor.fetchall()
    ]
    cursor.execute("SELECT current_database(), current_user WHERE NOT has_database_privilege(current_database(), 'TEMP')")
    return [
        *grants,
        *(
            SQL("GRANT TEMP ON DATABASE {} TO {}").format(Identifier(database), Identifier(user))
            for database, user in cursor.fetchall()
        ),
    ]


def _check_encoding(cursor: Cursor, wanted: WantedTable) -> None:
    cursor.execute("SHOW server_encoding")
    (encoding,) = cursor.fetchone() or ("",)
    if encoding != "UTF8":
        raise SchemaDiffers(
            f"The database of {wanted.place} is encoded in {encoding}, which does not have every character.",
            state="Nothing was written.",
            next_step="Use a database that is encoded in UTF8.",
        )


def _check_schema(cursor: Cursor, wanted: WantedTable, privilege: str) -> None:
    cursor.execute(
        "SELECT has_schema_privilege(oid, %s), current_user FROM pg_namespace WHERE nspname = %s",
        [privilege, wanted.place.schema],
    )
    schema, found = Identifier(wanted.place.schema), cursor.fetchone()
    if found is None:
        raise _differs(cursor, wanted, [SQL("CREATE SCHEMA {}").format(schema)])
    may, user = found
    if not may:
        raise _differs(cursor, wanted, [SQL("GRANT {} ON SCHEMA {} TO {}").format(SQL(privilege), schema, Identifier(user))])


def _gone(wanted: WantedTable) -> TableGone:
    return TableGone(
        f"{wanted.place} is gone, but its tidemark in schema tidemark says how much it held.",
        state="Nothing was made or written.",
        next_step="Bring the table back from a backup, together with schema tidemark; or give the sink a table of another name, "
        "which is filled from the beginning.",
    )


def _differs(cursor: Cursor, wanted: WantedTable, mends: list[Composable]) -> SchemaDiffers:
    statements = [mend.as_string(cursor) for mend in mends]
    return SchemaDiffers(
        f"{wanted.place} does not fit the stream: {len(statements)} things are missing or different.",
        state="Nothing was written.",
        next_step=f"Mend the table: {'; '.join(statements)}; or give the sink another one.",
        statements=statements,
    )
