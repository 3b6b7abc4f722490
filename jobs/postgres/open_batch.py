"""A batch on its way into a table of PostgreSQL: staged by executors, then put in by the one transaction (P5).

1. executors stage its rows, of totals one for each key; 2. the owner's row is locked, owner and version are checked; 3. the
staged rows are counted and put in, refused ones into the rejects: where totals are refused, the batch is made once more, and its
records are staged one by one; 4. it waits for the other sinks and for its turn; 5. the commit with tidemark and ledger is
appended. From 2 on in a thread of its own. The end of the transaction may be unknown, if the connection breaks in COMMIT: then
the driver ends, and the next start reads the tidemark.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg2.extensions import cursor as Cursor
from pyspark.sql import DataFrame

from include.contract.stream_spec import PostgresInsertNew, PostgresSink, PostgresTotals, PostgresUpsert
from include.tidemarks.note import LedgerLine, Tidemark
from jobs.counting import check_rows
from jobs.postgres.partial_totals import added_up, each_by_itself
from jobs.postgres.putting_in import JudgesEachRecord, PutIn, Putting
from jobs.postgres.staging import Staged
from jobs.postgres.text_forms import as_texts
from jobs.postgres.transaction_beside import TransactionBeside

if TYPE_CHECKING:
    from jobs.postgres.postgres_sink import PostgresTableSink


@dataclass(frozen=True)
class Order:
    """What the commit needs that is known only when all sinks are ready."""

    ledger: tuple[LedgerLine, ...]
    quarantine: tuple[int, int] | None


Transaction = TransactionBeside[Order, list[LedgerLine]]


class OpenPostgresBatch:
    def __init__(self, sink: "PostgresTableSink") -> None:
        self._sink = sink
        self._staged = Staged([], 0, 0, has_places=True)
        self._transaction: Transaction | None = None

    def write(self, rows: DataFrame) -> int:
        sink = self._sink
        with sink.unless_fenced():
            self._staged = sink.staging.write(as_texts(self._to_stage(rows), sink.staged), has_places=not sink.adds_up)  # 1
        return self._staged.records

    def _to_stage(self, rows: DataFrame) -> DataFrame:
        totals = self._sink.settings
        if not isinstance(totals, PostgresTotals):
            return rows
        return added_up(rows, totals) if self._sink.adds_up else each_by_itself(rows, totals)

    def begin(self, tidemark: Tidemark) -> Transaction:
        self._transaction = TransactionBeside(lambda wait: self._in_transaction(tidemark, wait))
        return self._transaction

    def finish(self) -> None:
        if self._transaction is not None:
            self._transaction.wait_until_ready()

    def give_up(self) -> None:
        if self._transaction is not None:
            self._transaction.give_up()

    def commit(
        self, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None = None
    ) -> list[LedgerLine]:
        transaction = self._transaction or self.begin(tidemark)
        booked = transaction.commit(Order(tuple(ledger), quarantine))
        if self._staged.rows:
            with self._sink.unless_fenced():
                self._sink.staging.empty()
        return booked

    def _in_transaction(self, tidemark: Tidemark, wait: Callable[[Cursor], Order]) -> list[LedgerLine]:
        sink = self._sink
        with sink.unless_fenced(), sink.transaction() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a refusal at COMMIT could not be told of one row
            sink.check_owner(cursor)  # 2
            batch = {
                "_topic": sink.topic,
                "_topic_epoch": tidemark.epoch,
                "_generation": tidemark.generation,
                "_batch_id": tidemark.batch,
            }
            putting = Putting(cursor, sink.statements(cursor), sink.staging, batch, sink.target, sink.spec_hash)
            done = self._put(putting)  # 3
            order = wait(cursor)  # 4
            booked = [_as_put_in(line, done, sink.settings) for line in order.ledger]
            if isinstance(sink.settings, PostgresTotals):
                check_rows(done.written.total(), sum(line.delivered for line in booked), sink.sink)
            sink.commit_batch(cursor, tidemark, booked, order.quarantine, done.written.total())  # 5
            return booked

    def _put(self, putting: Putting) -> PutIn:
        try:
            return putting.put(self._staged)
        except JudgesEachRecord:
            self._sink.adds_up = False  # until the next start: whoever refuses one may refuse another
            raise


def _as_put_in(line: LedgerLine, done: PutIn, settings: PostgresSink) -> LedgerLine:
    """Of the rows that were staged, some were refused, and some were not needed; of totals every one was."""
    rejected = done.rejected[line.partition]
    if isinstance(settings, PostgresTotals):
        return line.model_copy(update={"delivered": line.delivered - rejected, "rejected": rejected})
    if isinstance(settings, PostgresUpsert) and settings.order is None:  # results: the records were counted before
        return line
    written = done.written[line.partition]
    left_out = line.delivered - written - rejected
    kind = "duplicates" if isinstance(settings, PostgresInsertNew) else "superseded"
    return line.model_copy(update={"delivered": written, "rejected": rejected, kind: getattr(line, kind) + left_out})
