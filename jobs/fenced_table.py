"""A Delta table that only the newest generation of its stream writes: fence, adoption, batches (P1.2, P4).

Each commit carries a transaction version, generation << 32 | k, with k = 0 for the fence, 1 for the adoption, batch + 2 for a
batch; and a note. A commit is made only if nobody else of this stream has committed since this generation's last one: what
came before the transaction was opened is looked at, what comes after makes Delta refuse the commit.
"""

from collections.abc import Iterable
from contextlib import suppress

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from include.contract.identity import transaction_app_id
from include.control.generations import Generation
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark, generation_of, transaction_version
from include.tidemarks.sink_state import ForeignChange, SinkState, judge, read_sink
from jobs.delta_transaction import CONFLICTS, DeltaTransaction, make_table
from jobs.sink import NOTHING, ConflictLost, SinkWentBack, check_that_it_was_us, fenced, make_note
from jobs.table_shape import TableShape


class FencedTable:
    refuses, why_it_refuses = NOTHING, ""

    def __init__(
        self, spark: SparkSession, path: str, stream: str, sink: str, shape: TableShape, generation: Generation, spec_hash: str
    ) -> None:
        self.spark = spark
        self.path = path
        self.stream = stream
        self.sink = sink
        self.shape = shape
        self.generation = generation
        self.spec_hash = spec_hash
        self.derived: dict[str, Column] = {}
        self.log = DeltaLog(path)
        self._app_id = transaction_app_id(stream, sink)
        self._looked = -1
        self._newest: Note | None = None
        self._checked = ""
        self._lacking = StructType()  # columns that the table gets with the next batch

    @property
    def columns(self) -> list[str]:
        return list(self.shape.schema.names)

    @property
    def tidemark(self) -> Tidemark:
        if self._newest is None or self._newest.tidemark is None:
            raise ValueError(f"{self.sink} is not adopted yet")
        return self._newest.tidemark

    @property
    def has_batches(self) -> bool:
        """Of this generation or an earlier one."""
        return self._newest is not None and self._newest.made_by is not None

    def state(self) -> SinkState:
        return read_sink(self.path, self.stream, self.sink)

    def fence(self) -> None:
        """A compare-and-set: succeeds only over a strictly lower number, and reads back that it was us."""
        self._make()
        while True:
            state = self.state()
            if state.generation >= self.generation.number:
                check_that_it_was_us(self.stream, self.sink, self.generation, state.generation, state.owner)
                return
            transaction = self._open()
            self._check_shape(transaction)
            if self._was_written(state.version, transaction.version):
                continue
            note = self._note(Kind.FENCE, transaction, first=state.note is None)
            try:
                version = transaction.commit(self._number(None), note.to_json())
            except CONFLICTS:
                continue  # a zombie's batch, or another fence: look again
            self._read_back(version, note)
            return

    def adopt(
        self,
        state: SinkState,
        tidemark: Tidemark,
        *,
        pinned: bool,
        losses: Iterable[LedgerLine] = (),
        quarantine: tuple[int, int] | None = None,
    ) -> None:
        """`state` was read after the fence. Changes in it that were not approved have stopped the start before."""
        if state.owner != self.generation.owner:
            raise fenced(self.stream, self.sink, self.generation.number, state.generation)
        self._looked = state.version or 0  # up to there the start plan has judged
        transaction = self._open_looked()
        note = self._note(
            Kind.ADOPT,
            transaction,
            tidemark=tidemark,
            builds_on=state.tidemark,
            made_by=state.note.made_by if state.note else None,
            ledger=tuple(losses),
            accepted=tuple(change.version for change in state.changes),
            quarantine=quarantine,
            pinned=pinned,
        )
        self._commit(transaction, note)

    def open_batch(self) -> "OpenDeltaBatch":
        return OpenDeltaBatch(self, self._open_for_rows())

    def _open_for_rows(self) -> DeltaTransaction:
        transaction = self._open_looked()
        if len(self._lacking):
            transaction.add_columns(self._lacking)
        return transaction

    def commit_batch(
        self, transaction: DeltaTransaction, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None
    ) -> None:
        note = self._note(
            Kind.BATCH,
            transaction,
            tidemark=tidemark,
            builds_on=self.tidemark,
            made_by=self.spec_hash,
            ledger=tuple(ledger),
            quarantine=quarantine,
        )
        self._commit(transaction, note)

    def _commit(self, transaction: DeltaTransaction, note: Note) -> None:
        """Commits, reads back that it was us, and looks at what came between."""
        batch = note.tidemark.batch if note.tidemark else None
        try:
            version = transaction.commit(self._number(batch), note.to_json())
        except CONFLICTS as conflict:
            self._look(self.log.newest_version() or 0)
            raise self._lost(conflict) from conflict
        self._read_back(version, note)
        self._newest = note
        self._look(version)

    def _lost(self, conflict: Exception) -> ConflictLost:
        return ConflictLost(
            f"Another commit to {self.path} came between: {str(conflict).splitlines()[0]}",
            state=f"Nothing was committed; sink {self.sink} of {self.stream} holds its tidemark.",
            next_step="Nothing, if it is rare. If it goes on, see who else writes this table: DESCRIBE HISTORY tells.",
            sink=self.sink,
        )

    def _open(self) -> DeltaTransaction:
        return DeltaTransaction(self.spark, self.path, self._app_id)

    def _open_looked(self) -> DeltaTransaction:
        """Everything up to the version at which the transaction is open was looked at, so the tidemark is still the one we
        know; whatever of this stream is committed after that version makes the commit fail."""
        transaction = self._open()
        if transaction.version < self._looked:
            raise SinkWentBack(
                f"{self.path} is at version {transaction.version}, but was at {self._looked}: somebody made it anew.",
                state="This driver wrote nothing since.",
                next_step="Bring the table back; the stream goes on from what stands in it.",
                version=transaction.version,
            )
        self._look(transaction.version)
        self._check_shape(transaction)
        return transaction

    def _check_shape(self, transaction: DeltaTransaction) -> None:
        """Once for each text of the table's schema: somebody may change it while the stream runs."""
        if transaction.metadata_text != self._checked:
            self._lacking = self.shape.check(transaction, self.path, f"{self.sink} of {self.stream}")
            self._checked = transaction.metadata_text

    def _look(self, up_to: int) -> None:
        for commit in self.log.between(self._looked, up_to):
            number = commit.transactions.get(self._app_id)
            if number is not None and (commit.note is None or commit.note.owner != self.generation.owner):
                raise fenced(self.stream, self.sink, self.generation.number, generation_of(number))
            if change := judge(commit, self.stream, self.sink):
                raise self._went_back(change)
            self._looked = commit.version

    def _was_written(self, version: int | None, up_to: int) -> bool:
        return any(self._app_id in commit.transactions for commit in self.log.between(version or 0, up_to))

    def _went_back(self, change: ForeignChange) -> SinkWentBack:
        return SinkWentBack(
            change.in_(self.path),
            state=f"Sink {self.sink} of {self.stream} keeps the tidemark that stands in the table now.",
            next_step="Start the stream again: it says what is missing, delivers it, or asks what to do about it.",
            sink=self.sink,
            version=change.version,
            operation=change.operation,
        )

    def _read_back(self, version: int, note: Note) -> None:
        if self.log.commit(version).note != note:
            raise SinkWentBack(
                f"Version {version} of {self.path} is not the commit that this driver made there.",
                state="What it holds is not known.",
                next_step="Find out who writes the table's _delta_log by other means than Delta.",
                version=version,
            )

    def _make(self) -> None:
        if self.log.newest_version() is None:
            with suppress(*CONFLICTS):  # another start made it meanwhile
                make_table(self.spark, self.path, self.shape.schema, list(self.shape.partition_by), self.shape.properties)

    def _number(self, batch: int | None) -> int:
        return transaction_version(self.generation.number, batch)

    def _note(self, kind: Kind, transaction: DeltaTransaction, **more: object) -> Note:
        return make_note(self, kind, transaction.version, **more)


class OpenDeltaBatch:
    def __init__(self, table: FencedTable, transaction: DeltaTransaction) -> None:
        self._table = table
        self._transaction = transaction

    def write(self, rows: DataFrame) -> int:
        """The number of rows in the files, by Delta's own statistics."""
        self._transaction.write(rows)
        return self._transaction.rows_written

    def commit(
        self, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None = None
    ) -> list[LedgerLine]:
        booked = list(ledger)
        self._table.commit_batch(self._transaction, tidemark, booked, quarantine)
        return booked
