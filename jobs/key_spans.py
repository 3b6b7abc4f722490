"""Where the rows of some keys may lie: the least and the greatest of them, and the partitions. By that files are skipped."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampType,
)

from include.contract.stream_spec import DeltaMerge
from jobs.live_files import LiveFile

MOST_PARTITIONS = 500  # that are named one by one to find files; beyond, the least and the greatest
MOST_KEYS_SENT = 500_000  # to every executor, so that the table's rows need not be shuffled
STATISTICS_STEP = timedelta(milliseconds=1)  # to which times are cut off in a file's statistics


def spans(settings: DeltaMerge) -> Iterator[Column]:
    """Of each key column the least and the greatest value, and of partitions the values themselves; all as text, for Python
    has no time after the year 9999."""
    for name in settings.key:
        yield F.min(name).cast("string").alias(f"least_{name}")
        yield F.max(name).cast("string").alias(f"greatest_{name}")
    for name in settings.partition_by:
        yield F.slice(F.collect_set(F.col(name).cast("string")), 1, MOST_PARTITIONS + 1).alias(f"values_{name}")


def where_they_lie(settings: DeltaMerge, keys: DataFrame, found: Row) -> Iterator[Column]:
    """`found`: what `spans` are of these keys."""
    kinds = {field.name: field.dataType for field in keys.schema}
    for name in settings.key:
        if isinstance(kinds[name], BinaryType):
            continue  # Delta keeps no statistics of bytes
        least, greatest = (F.lit(found[f"{end}_{name}"]).cast(kinds[name]) for end in ("least", "greatest"))
        yield F.col(name).between(least, greatest)
        if name in settings.partition_by and len(values := found[f"values_{name}"]) <= MOST_PARTITIONS:
            yield F.col(name).isin(*(F.lit(value).cast(kinds[name]) for value in values))


def files_with_keys(files: Iterable[LiveFile], settings: DeltaMerge, keys: DataFrame, found: Row) -> list[LiveFile]:
    """Those that may hold rows of these keys."""
    columns = [_KeyColumn.of(name, keys.schema[name].dataType, settings, found) for name in settings.key]
    return [file for file in files if all(column.may_be_in(file) for column in columns if column)]


def sent(keys: DataFrame, count: int) -> DataFrame:
    """To be joined with a table."""
    return F.broadcast(keys) if count <= MOST_KEYS_SENT else keys


@dataclass(frozen=True)
class _KeyColumn:
    name: str
    read: Callable[[Any], Any]
    slack: Any  # that a value in the statistics may lie below the true one
    least: Any
    greatest: Any
    values: frozenset[Any] | None

    @classmethod
    def of(cls, name: str, kind: DataType, settings: DeltaMerge, found: Row) -> "_KeyColumn | None":
        """None if values of this kind tell nothing about files."""
        read = next((read for one, read in READERS if one == kind or (one is DecimalType and isinstance(kind, one))), None)
        ends = [_read(read, found[f"{end}_{name}"]) for end in ("least", "greatest")] if read else []
        if read is None or None in ends:
            return None
        slack = STATISTICS_STEP if kind == TimestampType() else None
        named = found[f"values_{name}"] if name in settings.partition_by else []
        values = frozenset(_read(read, value) for value in named)
        is_whole = 0 < len(named) <= MOST_PARTITIONS and None not in values
        return cls(name, read, slack, ends[0], ends[1], values if is_whole else None)

    def may_be_in(self, file: LiveFile) -> bool:
        if self.name in file.partition:
            value = _read(self.read, file.partition[self.name])
            if value is not None and self.values is not None:
                return value in self.values
            return value is None or self.least <= value <= self.greatest
        least, greatest = (_read(self.read, ends.get(self.name)) for ends in (file.least, file.greatest))
        if least is None or greatest is None:
            return True
        return bool(least <= self.greatest and self.least <= (greatest + self.slack if self.slack else greatest))


def _read(read: Callable[[Any], Any], value: Any) -> Any:
    """None if it is none, or one that Python does not know."""
    try:
        return None if value is None else read(value)
    except (ValueError, ArithmeticError):
        return None


def _instant(text: str) -> datetime:
    told = datetime.fromisoformat(text)
    return told if told.tzinfo else told.replace(tzinfo=UTC)


# Kinds whose texts, in statistics and as a partition's value, mean the same in every session. Texts are compared by code points,
# as Spark does. Of other kinds, every file may hold every key.
READERS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (StringType(), str),
    *((kind(), int) for kind in (ByteType, ShortType, IntegerType, LongType)),
    (DateType(), date.fromisoformat),
    (TimestampType(), _instant),
    (DecimalType, Decimal),
)
