"""Which spec made rows of which records: the ledger names it by its hash, and the control database keeps it (P1.4, P7.4)."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from include.contract.catalog import Stream
from include.contract.fingerprint import from_snapshot, spec_hash, state_hash
from include.control.database import ControlDatabase
from include.control.generations import read_spec
from include.control.window_contents import Segment
from jobs.row_shape import row_shape

OTHER_STATE = "its batches, or those that its state was made of, were judged by another dedupe, window or row than the others"
UNKNOWN_SPEC = "spec {spec_hash}, which made its rows, is not kept"


class Spec:
    """What made rows of records: a stream file as it was, and the columns that Spark makes by it, analysed once."""

    def __init__(self, spark: SparkSession, stream: Stream) -> None:
        self.stream = stream
        self.shape = row_shape(spark, stream)
        self.columns = [field.name for field in self.shape if not field.name.startswith("_")]
        self.row_hash = _row_hash(self.shape)


@dataclass(frozen=True)
class Group:
    """Segments that one spec made into rows."""

    spec: Spec
    segments: list[Segment]


def find_groups(
    spark: SparkSession, control: ControlDatabase, stream: Stream, segments: list[Segment]
) -> tuple[list[Group], dict[int, str]]:
    """And the partitions of which a spec is not kept, with the reason."""
    groups: list[Group] = []
    unknown: dict[int, str] = {}
    for wanted in sorted({one.spec_hash for one in segments}):
        mine = [one for one in segments if one.spec_hash == wanted]
        if spec := find_spec(spark, control, stream, wanted):
            groups.append(Group(spec, mine))
        else:
            unknown |= {one.partition: UNKNOWN_SPEC.format(spec_hash=wanted) for one in mine}
    return groups, unknown


def find_spec(spark: SparkSession, control: ControlDatabase, stream: Stream, wanted: str) -> Spec | None:
    """Of offsets that no line of the ledger speaks of, nobody knows it: the file as it is now is taken."""
    if kept := read_spec(control, stream.name, wanted):
        return Spec(spark, from_snapshot(kept))
    return Spec(spark, stream) if wanted in ("", spec_hash(stream)) else None


def as_made(stream: Stream, groups: Iterable[Group]) -> Stream | None:
    """By which file a window of these groups is judged: the present one, or, where that has another dedupe, window or row by now,
    the one of that time. None: by one there is none, for a state is of one file."""
    made_by = {state_hash(group.spec.stream): group.spec.stream for group in groups}
    is_of_state = stream.spec.is_stateful or any(one.spec.is_stateful for one in made_by.values())
    if not is_of_state or not made_by or set(made_by) == {state_hash(stream)}:
        return stream
    return next(iter(made_by.values())) if len(made_by) == 1 else None


def of_one_state(spark: SparkSession, control: ControlDatabase, stream: Stream, hashes: Iterable[str]) -> str | None:
    """Why the batches of these specs cannot be told to be of one state; None if they are."""
    specs = {wanted: find_spec(spark, control, stream, wanted) for wanted in sorted(hashes)}
    if unknown := [wanted for wanted, spec in specs.items() if spec is None]:
        return UNKNOWN_SPEC.format(spec_hash=unknown[0])
    return OTHER_STATE if len({state_hash(spec.stream) for spec in specs.values() if spec}) > 1 else None


def _row_hash(shape: StructType) -> Column:
    """Of the coordinates, the time and every column of the stream. Spark hashes no map, so a map goes in as text."""
    columns = [
        F.to_json(F.col(field.name)) if isinstance(field.dataType, MapType) else F.col(field.name)
        for field in shape
        if not field.name.startswith("_")
    ]
    return F.xxhash64("_partition", "_offset", "_kafka_timestamp", *columns)
