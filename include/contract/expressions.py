"""Checks `where` and `select` before Spark sees them: one expression, row by row, the same on every replay.

A driver checks again on Spark's own analysed plan; this is the early, precise answer with a line number.
"""

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from include.contract.problems import nearest
from include.contract.spark_functions import ROW_FUNCTIONS

KEYWORDS_BEFORE_A_BRACKET = frozenset(
    {
        *("cast", "try_cast", "case", "when", "then", "else", "and", "or", "not", "in", "between", "like", "ilike", "rlike"),
        *("is", "null", "as", "div"),
    }
)
TYPES_WITH_A_LENGTH = frozenset({"decimal", "dec", "numeric", "char", "varchar"})  # cast(x as decimal(12,2))
CLOCK_WORDS = ("now", "today", "tomorrow", "yesterday")  # Spark reads these texts as times wherever it expects a time
UNFIT: dict[type[exp.Expr], str] = {
    exp.Query: "holds a query; only expressions that look at one row are allowed",
    exp.Window: "holds a window function; only expressions that look at one row are allowed",
    exp.AggFunc: "holds an aggregate; only expressions that look at one row are allowed",
    exp.Star: "holds a star; name the columns",
    exp.Lambda: "holds a lambda, which is not supported here",
    exp.Placeholder: "holds a placeholder",
    exp.Parameter: "holds a parameter",
    exp.CurrentTimestamp: "asks for the time, which is another one when a batch is replayed",
    exp.CurrentDate: "asks for the date, which is another one when a batch is replayed",
    exp.CurrentUser: "asks for the user, who may be another one when a batch is replayed",
}
EXPRESSIONS = (exp.Condition, exp.Func, exp.Paren, exp.AtTimeZone, exp.FromTimeZone)


class ExpressionRefused(ValueError):
    """The message continues the sentence '<key> is <text>, which ...'."""


def columns_of(text: str) -> set[str]:
    """The columns an expression reads, in lower case; raises ExpressionRefused."""
    tree = _parse(text)
    for node in tree.walk():
        _refuse_unfit(node)
    _refuse_unknown_functions(text)
    if not isinstance(tree, EXPRESSIONS):
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
    for kind, words in UNFIT.items():
        if isinstance(node, kind):
            raise ExpressionRefused(words)
    if isinstance(node, exp.Literal) and node.is_string and str(node.this).strip().lower().startswith(CLOCK_WORDS):
        raise ExpressionRefused(f"holds the text {node.this!r}, which Spark can read as the time of the replay")


def _refuse_unknown_functions(text: str) -> None:
    """By the names as they were typed: the parser gives known functions other names, and lets unknown ones pass."""
    tokens = sqlglot.tokenize(text, read="spark")
    for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
        name = token.text.lower()
        if after.token_type != TokenType.L_PAREN or not _is_word(token):
            continue
        if before is not None and before.token_type == TokenType.DOT:
            raise ExpressionRefused(f"calls {name!r} by a qualified name; only Spark's own functions are allowed")
        if name not in ROW_FUNCTIONS | KEYWORDS_BEFORE_A_BRACKET | TYPES_WITH_A_LENGTH:
            known = nearest(name, ROW_FUNCTIONS)
            raise ExpressionRefused(f"calls {name!r}, which is no function of one row that answers the same on replay.{known}")


def _is_word(token: Token) -> bool:
    is_plain = token.token_type != TokenType.STRING and token.text.replace("_", "a").isalnum()
    return is_plain or token.token_type == TokenType.IDENTIFIER
