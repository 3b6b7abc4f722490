"""The columns and the partitioning that a table must have, and how another table differs from that, column by column."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from jobs.delta_transaction import DeltaTransaction
from jobs.sink import SchemaDiffers


@dataclass(frozen=True)
class TableShape:
    schema: StructType
    partition_by: tuple[str, ...] = ()
    may_grow: bool = False  # `schema_changes: add_columns`
    properties: Mapping[str, str] = field(default_factory=dict)  # that a table is made with

    def check(self, there: DeltaTransaction, path: str, sink: str) -> StructType:
        """The columns that the table gets with the next batch; any other difference is refused."""
        lacking = self._lacking(there.schema) if self.may_grow else StructType()
        differences = self._differences(there.schema, lacking)
        if there.partition_by != self.partition_by:
            by, wanted = ", ".join(there.partition_by), ", ".join(self.partition_by)
            differences.append(f"partitioned by {by or 'nothing'} there, by {wanted or 'nothing'} in the file")
        if differences:
            raise SchemaDiffers(
                f"{path} does not fit sink {sink}: {'; '.join(differences)}.",
                state="Nothing was written.",
                next_step=self._next_step(there.schema),
                differences=differences,
            )
        return lacking

    def _next_step(self, there: StructType) -> str:
        if not self.may_grow and len(self._differences(there, self._lacking(there))) == 0:
            return "With `schema_changes: add_columns` in its sink the table gets these columns with the next batch."
        return "Put the stream file back, or give the sink another table."

    def _lacking(self, there: StructType) -> StructType:
        known = {field.name.lower() for field in there}
        return StructType([field for field in self.schema if field.name.lower() not in known])

    def _differences(self, there: StructType, lacking: StructType) -> list[str]:
        types_there = {field.name.lower(): field.dataType.simpleString() for field in there}
        types_wanted = {field.name.lower(): field.dataType.simpleString() for field in self.schema if field not in lacking.fields}
        names = [*types_wanted, *(name for name in types_there if name not in types_wanted)]
        return [
            f"column {name} is {types_there.get(name, 'absent')} there, {types_wanted.get(name, 'absent')} in the file"
            for name in names
            if types_there.get(name) != types_wanted.get(name)
        ]
