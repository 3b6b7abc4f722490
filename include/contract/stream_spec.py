"""The stream file and the record schema, as models: what may stand where. What depends on other files is `catalog`'s."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from include.contract.quantities import ByteCount, Duration

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,127}$")]  # a leading _ is for our own columns
PUBLIC = "public"  # PostgreSQL's schema for a table that names none
Text = Annotated[str, Field(min_length=1, max_length=2000)]


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
    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,248}$")]  # Kafka forbids . and ..
    connection: Name
    start: Literal["earliest", "latest"] = "earliest"
    max_records_per_batch: Annotated[int, Field(gt=0, le=2**31 - 1)] = 200_000


class Decode(Section):
    format: Literal["json"]
    record_schema: Name = Field(alias="schema")
    tombstones: Literal["quarantine", "filter"] = "quarantine"
    extra_fields: Literal["ignore", "quarantine"] = "ignore"
    max_value_bytes: ByteCount = 1_000_000


class DeltaAppend(Section):
    """Every row, in a table of the lake."""

    kind: Literal["delta_append"]
    table: Name
    partition_by: list[ColumnName] = []


class PostgresTable(Section):
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
    order: ColumnName


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


PostgresSink = PostgresInsertNew | PostgresUpsert | PostgresTotals
Sink = Annotated[DeltaAppend | PostgresSink, Field(discriminator="kind")]


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
    trigger: Duration
    sinks: Annotated[dict[Name, Sink], Field(min_length=1)]
    reconcile: Reconcile
    health: Health

    @property
    def connections(self) -> set[str]:
        """The ids of those that a driver of this stream needs."""
        databases = {sink.connection for sink in self.sinks.values() if not isinstance(sink, DeltaAppend)}
        return {self.source.connection, *databases}
