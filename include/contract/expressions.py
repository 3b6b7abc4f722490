"""Checks `where` and `select` before Spark sees them: one expression, row by row, the same on every replay.

A driver checks again on Spark's own analysed plan; this is the early, precise answer with a line number.
"""

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

NOT_REPLAYABLE = {
    *("rand", "randn", "random", "uuid", "shuffle", "now", "current_timestamp", "current_date", "curdate", "localtimestamp"),
    *("current_time", "current_timezone", "unix_timestamp", "monotonically_increasing_id", "spark_partition_id"),
    *("input_file_name", "input_file_block_start", "input_file_block_length", "current_user", "session_user", "user"),
    *("current_catalog", "current_database", "current_schema", "version", "java_method", "reflect", "try_reflect"),
}
MAKES_MORE_ROWS = {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple"}
NOT_ROW_BY_ROW: dict[type[exp.Expr], str] = {
    exp.Query: "a query inside an expression",
    exp.Window: "a window function",
    exp.AggFunc: "an aggregate",
    exp.Star: "a star",
    exp.Lambda: "a lambda",
    exp.Placeholder: "a placeholder",
    exp.Parameter: "a parameter",
}


class ExpressionRefused(ValueError):
    """The message continues the sentence '<key> is <text>, which ...'."""


def columns_of(text: str) -> set[str]:
    """The columns an expression reads, in lower case; raises ExpressionRefused."""
    tree = _parse(text)
    for node in tree.walk():
        _refuse_unfit(node)
    if not isinstance(tree, exp.Condition | exp.Func | exp.Paren):
        raise ExpressionRefused("is not a Spark SQL expression but a statement")
    columns = list(tree.find_all(exp.Column))
    if qualified := next((column.sql(dialect="spark") for column in columns if column.table), None):
        raise ExpressionRefused(f"names {qualified!r}; columns stand alone here, a field of a struct as struct['field']")
    return {column.name.lower() for column in columns}


def _parse(text: str) -> exp.Expr:
    try:
        statements = sqlglot.parse(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        reason = str(error).splitlines()[0].split(". Line")[0] or type(error).__name__
        raise ExpressionRefused(f"is not a Spark SQL expression ({reason})") from error
    if len(statements) != 1 or statements[0] is None:
        raise ExpressionRefused("is not one Spark SQL expression")
    return statements[0]


def _refuse_unfit(node: exp.Expr) -> None:
    for kind, words in NOT_ROW_BY_ROW.items():
        if isinstance(node, kind):
            raise ExpressionRefused(f"holds {words}; only expressions that look at one row are allowed")
    called = _names_of(node)
    if unstable := called & NOT_REPLAYABLE:
        raise ExpressionRefused(f"calls {min(unstable)}, which gives another answer when a batch is replayed")
    if multiplying := called & MAKES_MORE_ROWS:
        raise ExpressionRefused(f"calls {min(multiplying)}, which makes several rows out of one")


def _names_of(node: exp.Expr) -> set[str]:
    """A function's own name, or all the names under which a known one goes."""
    if isinstance(node, exp.Anonymous):
        return {node.name.lower()}
    return {name.lower() for name in node.sql_names()} if isinstance(node, exp.Func) else set()
