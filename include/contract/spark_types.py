"""The Spark SQL types that a record schema may name. A small grammar of our own: parsers of SQL in general accept types
that Spark does not have."""

import re

SIMPLE = frozenset(
    {
        *("string", "boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
        *("float", "real", "double", "date", "timestamp", "timestamp_ntz", "timestamp_ltz"),
    }
)
INEXACT = ("float", "real", "double")
INSTANTS = ("timestamp", "timestamp_ltz")
WHOLE_NUMBERS = ("byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint")
DECIMALS = ("decimal", "dec", "numeric")
LARGEST_PRECISION = 38
TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[<>(),:])")


def is_type(text: str) -> bool:
    tokens = TOKEN.findall(text)
    if TOKEN.sub("", text).strip():
        return False
    try:
        return _type(tokens) and not tokens
    except IndexError:  # the text ended too early
        return False


def is_simple(text: str) -> bool:
    """One value and not many: what a table can be partitioned by."""
    return text.strip().lower() in SIMPLE or text.strip().lower().startswith(("decimal", "dec(", "numeric"))


def is_number(text: str) -> bool:
    kind = text.strip().lower()
    return kind in (*WHOLE_NUMBERS, *INEXACT) or kind.startswith(DECIMALS)


def _type(tokens: list[str]) -> bool:
    match tokens.pop(0).lower():
        case "decimal" | "dec" | "numeric":
            return _precision(tokens)
        case "array":
            return _next(tokens, "<") and _type(tokens) and _next(tokens, ">")
        case "map":
            return _next(tokens, "<") and _type(tokens) and _next(tokens, ",") and _type(tokens) and _next(tokens, ">")
        case "struct":
            return _next(tokens, "<") and _fields(tokens)
        case simple:
            return simple in SIMPLE


def _precision(tokens: list[str]) -> bool:
    if not tokens or tokens[0] != "(":
        return True
    numbers = "".join(tokens[: tokens.index(")") + 1]) if ")" in tokens else ""
    match = re.fullmatch(r"\(([0-9]+)(?:,([0-9]+))?\)", numbers)
    del tokens[: tokens.index(")") + 1 if match else 0]
    return match is not None and 1 <= int(match[1]) <= LARGEST_PRECISION and int(match[2] or 0) <= int(match[1])


def _fields(tokens: list[str]) -> bool:
    names: set[str] = set()
    while True:
        name = tokens.pop(0).lower()
        if name in names or not name.isidentifier() or not (_next(tokens, ":") and _type(tokens)):
            return False
        names.add(name)
        if tokens[0] == ">":
            return _next(tokens, ">")
        if not _next(tokens, ","):
            return False


def _next(tokens: list[str], wanted: str) -> bool:
    return tokens.pop(0) == wanted
