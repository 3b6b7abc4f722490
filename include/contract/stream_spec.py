"""The stream file and the record schema, as models: what may stand where. What depends on other files is `catalog`'s."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from include.contract.quantities import ByteCount, Duration

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,127}$")]  # a leading _ is for our own columns
BY_OFFSET, BY_KAFKA_TIME = "offset", "_kafka_timestamp"  # orders that every record has, a tombstone too
TOPIC_CHARACTERS = "[A-Za-z0-9_-][A-Za-z0-9._-]"  # Kafka forbids the names . and ..
AS_JSON = "json"  # how a record's value is made of its columns, where no single column is named
WINDOW_START, WINDOW_END = "window_start", "window_end"  # columns of an aggregate's results, beside its key
AHEAD_AT_MOST = timedelta(hours=1)  # of Kafka's time: an event time beyond it would move the watermark, and make all others late
PUBLIC = "public"  # PostgreSQL's schema for a table that names none
Text = Annotated[str, Field(min_length=1, max_length=2000)]
OrderName = Annotated[str, Field(pattern=r"^(_kafka_timestamp|[A-Za-z][A-Za-z0-9_]{0,127})$")]  # a column, or BY_OFFSET


class Section(BaseModel):
    """Strict: `"200000"` is text and not a number; an unknown key is an error, not a comment."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SchemaField(Section):
    type: Text
    required: bool = False


class RecordSchema(Section):
    """config/schemas/<name>.yaml: the fields of a record, with Spark SQL types."""

    description: Text
    fields: Annotated[dict[ColumnName, SchemaField], Field(min_length=1)]


class Source(Section):
    topic: Annotated[str, Field(pattern=rf"^{TOPIC_CHARACTERS}{{0,248}}$")]
    connection: Name
    start: Literal["earliest", "latest"] = "earliest"
    max_records_per_batch: Annotated[int, Field(gt=0, le=2**31 - 1)] = 200_000


class Decode(Section):
    format: Literal["json"]
    record_schema: Name = Field(alias="schema")
    tombstones: Literal["quarantine", "filter", "delete"] = "quarantine"
    extra_fields: Literal["ignore", "quarantine"] = "ignore"
    max_value_bytes: ByteCount = 1_000_000


class AnySink(Section):
    """What every kind of sink may say: where it begins if it is added to a stream that has run (P2). Changes no row."""

    begin: Literal["earliest", "now"] | None = Field(default=None, alias="from")


class LakeTable(AnySink):
    """A Delta table. Neither `schema_changes` nor `cluster_by` changes a row."""

    table: Name
    partition_by: list[ColumnName] = []
    cluster_by: list[ColumnName] = []  # how maintenance sorts the rows of the files that it makes of many small ones
    schema_changes: Literal["refuse", "add_columns"] = "refuse"


class DeltaAppend(LakeTable):
    """Every row."""

    kind: Literal["delta_append"]


class DeltaMerge(LakeTable):
    """The newest row of each key, by `order`; older ones are counted as superseded. A delete stays as a row, so that an older
    record that comes late does not bring its key back."""

    kind: Literal["delta_merge"]
    key: Annotated[list[ColumnName], Field(min_length=1)]
    order: OrderName | None = None  # none for results of an aggregate: there a later batch always wins
    deleted: ColumnName | None = None  # a boolean: the record deletes its key
    purge_deleted_after: Duration | None = None  # of Kafka's time; then an older record that comes later still brings it back

    @property
    def is_by_offset(self) -> bool:
        return self.order == BY_OFFSET


class PostgresTable(AnySink):
    """A table of a database, with or without its schema; rows are told apart by `key`."""

    connection: Name
    table: Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,62}$")]
    key: Annotated[list[ColumnName], Field(min_length=1)]


class PostgresInsertNew(PostgresTable):
    """The first row of each key; later ones are counted as duplicates."""

    kind: Literal["postgres_insert_new"]


class PostgresUpsert(PostgresTable):
    """The newest row of each key, by `order`; older ones are counted as superseded."""

    kind: Literal["postgres_upsert"]
    order: ColumnName | None = None  # none for results of an aggregate: there a later batch always wins


class PostgresTotals(PostgresTable):
    """Totals of each key. A column that is summed keeps its name; of others there are `<column>_min` and `<column>_max`."""

    kind: Literal["postgres_totals"]
    sum: list[ColumnName] = []
    count: ColumnName | None = None
    min: list[ColumnName] = []
    max: list[ColumnName] = []

    @property
    def totals(self) -> list[str]:
        """The names of the table's columns beside the key."""
        counted = [self.count] if self.count else []
        return [*self.sum, *counted, *(f"{name}_min" for name in self.min), *(f"{name}_max" for name in self.max)]


class NewTopic(Section):
    """How a topic is made that is not there."""

    partitions: Annotated[int, Field(gt=0, le=10_000)]
    replication: Annotated[int, Field(gt=0, le=100)] = 1


class KafkaOutput(AnySink):
    """Records in a topic, in transactions: whoever reads committed records alone sees each source record's outputs once, in the
    order of the source."""

    kind: Literal["kafka"]
    connection: Name
    topic: Annotated[str, Field(pattern=rf"^{TOPIC_CHARACTERS}{{0,230}}$")]  # its tidemarks and rejects have longer names
    key: ColumnName | None = None
    value: ColumnName = AS_JSON  # all columns as one JSON object; or one column as it is, text or bytes
    explode: ColumnName | None = None  # an array: one output for each element, none for an empty one
    partition: Literal["key", "source"] | Annotated[int, Field(ge=0)] = "key"
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    create: NewTopic | None = None  # otherwise the topic must be there
    slots: Annotated[int, Field(gt=0, le=64)] = 2  # transactions of one batch at once
    slot_within: Duration = timedelta(minutes=2)  # the longest that one of them may take
    transaction_timeout: Duration = timedelta(minutes=5)  # then the broker ends what a dead driver left open


PostgresSink = PostgresInsertNew | PostgresUpsert | PostgresTotals
Sink = Annotated[DeltaAppend | DeltaMerge | PostgresSink | KafkaOutput, Field(discriminator="kind")]


@dataclass(frozen=True)
class Watermark:
    """By which event time a record is late: `within` behind the newest one of any partition."""

    event_time: str
    within: timedelta


class Dedupe(Section):
    """One row of those that have the same key and lie within `within` of each other."""

    key: Annotated[list[ColumnName], Field(min_length=1)]
    event_time: ColumnName
    within: Duration


class Aggregate(Section):
    """Values of each key and window of event time. A column that is summed keeps its name; of others there are `<column>_min`,
    `<column>_max` and `<column>_avg`."""

    key: Annotated[list[ColumnName], Field(min_length=1)]
    window: Duration
    slide: Duration | None = None  # none: windows that do not overlap
    sum: list[ColumnName] = []
    count: ColumnName | None = None
    min: list[ColumnName] = []
    max: list[ColumnName] = []
    avg: list[ColumnName] = []
    emit: Literal["updates", "final"] = "updates"  # each time that a window's values change, or once when it is closed
    event_time: ColumnName | None = None  # this and `within` are said by dedupe, where there is one
    within: Duration | None = None

    @property
    def values(self) -> list[str]:
        """The names of the results' columns beside the key and the window."""
        counted = [self.count] if self.count else []
        rest = {"min": self.min, "max": self.max, "avg": self.avg}
        return [*self.sum, *counted, *(f"{column}_{ending}" for ending, columns in rest.items() for column in columns)]

    @property
    def columns(self) -> list[str]:
        """Of its results: all that its sinks see."""
        return [*self.key, WINDOW_START, WINDOW_END, *self.values]


class Reconcile(Section):
    every: Duration
    unique: list[ColumnName] = []
    fresh_within: Duration = timedelta(hours=1)  # how old what was delivered last may be while more waits


class Health(Section):
    stuck_after: Duration


class StreamSpec(Section):
    """config/streams/<name>.yaml: one stream."""

    description: Text
    owner: Text
    enabled: bool = True
    source: Source
    decode: Decode
    where: Text | None = None
    select: dict[ColumnName, Text] = {}
    keep: list[ColumnName] | None = None
    dedupe: Dedupe | None = None
    aggregate: Aggregate | None = None
    late: Literal["count", "quarantine"] | None = None  # what becomes of late records besides being left out; none: count
    trigger: Duration
    sinks: Annotated[dict[Name, Sink], Field(min_length=1)]
    reconcile: Reconcile
    health: Health

    @property
    def is_stateful(self) -> bool:
        return self.dedupe is not None or self.aggregate is not None

    @property
    def stateful_operators(self) -> int:
        return sum(one is not None for one in (self.dedupe, self.aggregate))

    @property
    def watermark(self) -> Watermark | None:
        """Of a stateful stream."""
        told = self.dedupe or self.aggregate
        if told is None or told.event_time is None or told.within is None:
            return None
        return Watermark(told.event_time, told.within)

    @property
    def quarantines_late(self) -> bool:
        return self.late == "quarantine"

    @property
    def tombstone_key(self) -> str | None:
        """The field that Kafka's key stands for in a record that deletes."""
        keys = [sink.key[0] for sink in self.sinks.values() if isinstance(sink, DeltaMerge)]
        return keys[0] if keys and self.decode.tombstones == "delete" else None

    @property
    def begins(self) -> dict[str, Literal["earliest", "now"] | None]:
        """What each sink says under `from`."""
        return {name: sink.begin for name, sink in self.sinks.items()}

    @property
    def connections(self) -> set[str]:
        """The ids of those that a driver of this stream needs."""
        of_sinks = {sink.connection for sink in self.sinks.values() if not isinstance(sink, LakeTable)}
        return {self.source.connection, *of_sinks}
