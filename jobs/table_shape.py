"""The columns and the partitioning that a table must have, and how another table differs from that, column by column."""

from dataclasses import dataclass

from pyspark.sql.types import StructType

from jobs.delta_transaction import DeltaTransaction
from jobs.sink import SchemaDiffers


@dataclass(frozen=True)
class TableShape:
    schema: StructType
    partition_by: tuple[str, ...] = ()

    def check(self, there: DeltaTransaction, path: str, sink: str) -> None:
        differences = self._differences(there.schema)
        if there.partition_by != self.partition_by:
            by, wanted = ", ".join(there.partition_by), ", ".join(self.partition_by)
            differences.append(f"partitioned by {by or 'nothing'} there, by {wanted or 'nothing'} in the file")
        if differences:
            raise SchemaDiffers(
                f"{path} does not fit sink {sink}: {'; '.join(differences)}.",
                state="Nothing was written.",
                differences=differences,
            )

    def _differences(self, there: StructType) -> list[str]:
        types_there = {field.name.lower(): field.dataType.simpleString() for field in there}
        types_wanted = {field.name.lower(): field.dataType.simpleString() for field in self.schema}
        names = [*types_wanted, *(name for name in types_there if name not in types_wanted)]
        return [
            f"column {name} is {types_there.get(name, 'absent')} there, {types_wanted.get(name, 'absent')} in the file"
            for name in names
            if types_there.get(name) != types_wanted.get(name)
        ]
