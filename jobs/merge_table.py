"""A Delta table that holds the newest row of each key (P4). Fence, adoption and commit are those of every Delta sink; how rows
get in is told in `merging`.
"""

from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import (
    AtomicType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import DELETED, OWN_COLUMNS
from include.contract.stream_spec import DeltaMerge
from include.tidemarks.note import LedgerLine, Tidemark
from jobs.delta_transaction import DeltaTransaction
from jobs.fenced_table import FencedTable
from jobs.key_order import has_no_key, is_delete, order_of
from jobs.live_files import LiveFiles
from jobs.merging import OpenMergeBatch
from jobs.table_shape import TableShape

WITH_MARKS = {"delta.enableDeletionVectors": "true"}  # a replaced row is marked in its file, the others are not written again


class CannotMerge(StreamFailure):
    """The columns that the stream makes cannot be key, order or mark of a delete."""

    exit_class = ExitClass.CONFIGURATION


class PartitionsChanged(StreamFailure):
    """Offsets order the records of a key only as long as the key stays in its partition."""

    exit_class = ExitClass.CONFIGURATION


class MergeTable(FencedTable):
    def __init__(self, settings: DeltaMerge, *of_table: Any) -> None:
        super().__init__(*of_table)
        self.settings = settings
        self.order = order_of(settings)
        self.live_files = LiveFiles(self.log)
        self.refuses = has_no_key(settings)
        self.why_it_refuses = f"key {', '.join(settings.key)} has no value"
        self.derived = {DELETED: is_delete(settings)}

    def open_batch(self) -> OpenMergeBatch:
        return OpenMergeBatch(self, self._open_for_rows())

    def commit_batch(
        self, transaction: DeltaTransaction, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None
    ) -> None:
        check_partitions(self.settings, self.sink, self.tidemark, set(tidemark.offsets))
        super().commit_batch(transaction, tidemark, ledger, quarantine)


def check_partitions(settings: DeltaMerge, sink: str, held: Tidemark, partitions: set[int]) -> None:
    if settings.is_by_offset and (added := sorted(partitions - set(held.offsets))):
        raise PartitionsChanged(
            f"Sink {sink} orders rows by offset, but the topic has {len(partitions)} partitions instead of {len(held.offsets)}: "
            f"a key may have moved to partition {added[0]}, whose offsets begin anew.",
            state="Nothing was written since; the sink holds its tidemark.",
            next_step="Give the sink another order, a column or _kafka_timestamp, then start the stream again.",
            sink=sink,
        )


def merge_shape(settings: DeltaMerge, schema: StructType) -> TableShape:
    """Our own columns and the key first: Delta keeps statistics of the first 32, and by them a batch finds its files."""
    types = {field.name: field.dataType for field in schema}
    _check_types(settings, types)
    first = [*(StructField(name, types[name]) for name in OWN_COLUMNS), StructField(DELETED, BooleanType())]
    first += [StructField(name, types[name]) for name in settings.key]
    rest = [field for field in schema if field.name not in (*OWN_COLUMNS, *settings.key)]
    may_grow = settings.schema_changes == "add_columns"
    return TableShape(StructType([*first, *rest]), tuple(settings.partition_by), may_grow, WITH_MARKS)


def _check_types(settings: DeltaMerge, types: dict[str, DataType]) -> None:
    wrong = [f"key {name} is {types[name].simpleString()}" for name in settings.key if not _is_exact(types[name])]
    if settings.order is not None and isinstance(types.get(settings.order), MapType | VariantType):
        wrong.append(f"order {settings.order} is {types[settings.order].simpleString()}, which has no order")
    if settings.deleted and not isinstance(types[settings.deleted], BooleanType):
        wrong.append(f"deleted {settings.deleted} is {types[settings.deleted].simpleString()} and not boolean")
    if wrong:
        raise CannotMerge(
            f"Rows cannot be merged as the stream file says: {'; '.join(wrong)}.",
            state="Nothing was started.",
            next_step="Mend the sink, or the select that makes these columns: a key is a single value that compares exactly.",
        )


def _is_exact(kind: DataType) -> bool:
    return isinstance(kind, AtomicType) and not isinstance(kind, FloatType | DoubleType | VariantType)
