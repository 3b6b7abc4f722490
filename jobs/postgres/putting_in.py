"""Puts the staged rows of a batch into the table, inside the driver's transaction, and finds the rows that the database refuses.

All at once, if it takes all of them. If not, by halves: each half is tried under a savepoint, in the order of the coordinates,
until the refused rows stand alone. They go into the rejects with the database's own code and message (P3.6).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg2
from psycopg2.extensions import cursor as Cursor
from psycopg2.sql import SQL, Composable, Composed, Identifier, Literal

from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.stream_spec import PostgresUpsert
from include.tidemarks.postgres_connection import first_line
from jobs.postgres.partial_totals import RECORDS
from jobs.postgres.staging import Staged, Staging
from jobs.postgres.statements import Statements
from jobs.quarantine import BUDGET_ROWS, BUDGET_SHARE
from jobs.sink import OnceMore

# Classes of SQLSTATE that speak of a row: data, constraint, check option, a trigger's own, a value too long for an index.
OF_A_ROW = ("22", "23", "44", "P0", "54")
TOLD = 3
CODE_OF_NO_TEXT = "22021"


class JudgesEachRecord(OnceMore):
    """The database refuses something of totals that Spark has added up: which record it is, only single ones can tell."""


class TooManyRejects(StreamFailure):
    """The database refuses more rows of one batch than a stream may set aside by itself."""

    exit_class = ExitClass.POISON


class ResultRefused(StreamFailure):
    """A result comes of many records: none of them can be set aside for it."""

    exit_class = ExitClass.POISON


@dataclass
class PutIn:
    """Per partition: rows that were written, and rows that were refused. Records that Spark has added up have none."""

    written: Counter[int | None] = field(default_factory=Counter)
    rejected: Counter[int] = field(default_factory=Counter)


class Putting:
    def __init__(
        self, cursor: Cursor, statements: Statements, staging: Staging, batch: Mapping[str, object], target: str, spec_hash: str
    ) -> None:
        self._cursor = cursor
        self._statements = statements
        self._staging = staging
        self._batch = batch
        self._target = target
        self._spec_hash = spec_hash
        self._done = PutIn()
        self._budget = BUDGET_ROWS
        self._told: list[str] = []

    def put(self, staged: Staged) -> PutIn:
        if self._statements.judges_each_record and not staged.has_places:
            raise JudgesEachRecord("the table cannot hold every value of theirs")
        self._budget = max(BUDGET_ROWS, int(staged.rows * BUDGET_SHARE))
        staged_rows = self._staging.rows_of(staged)
        without_text = self._check_count(staged_rows, staged)
        if without_text and not staged.has_places:
            raise JudgesEachRecord(f"{without_text:,} keys are no text that PostgreSQL has")
        if without_text and self._holds_results:
            raise self._result_refused(f"{without_text:,} keys or values are no text that PostgreSQL has")
        if without_text:
            self._reject(SQL("{} AND no_text IS NOT NULL").format(staged_rows), CODE_OF_NO_TEXT, SQL("s.no_text"))
        usable = SQL("{} AND no_text IS NULL").format(staged_rows)
        refusal = self._try(usable)
        if refusal is not None and not staged.has_places:
            raise JudgesEachRecord(first_line(refusal))
        if refusal is not None and self._holds_results:
            raise self._result_refused(first_line(refusal))
        if refusal is not None:
            self._put_by_halves(usable, staged.rows - without_text)
        return self._done

    def _result_refused(self, why: str) -> ResultRefused:
        return ResultRefused(
            f"{self._target} refuses a window's value of batch {self._batch['_batch_id']}: {why}",
            state="Nothing of this batch was written.",
            next_step="Mend the table or the aggregate in the stream file, then start the stream again.",
        )

    @property
    def _holds_results(self) -> bool:
        sink = self._statements.sink
        return isinstance(sink, PostgresUpsert) and sink.order is None

    def _check_count(self, staged_rows: Composed, staged: Staged) -> int:
        """Of those that PostgreSQL has no text for. Without this check an emptied staging table would move the tidemark over
        nothing."""
        self._cursor.execute(SQL("SELECT count(*), count(no_text) FROM ({}) s").format(staged_rows))
        rows, without_text = self._cursor.fetchone() or (0, 0)
        self._staging.check_rows(staged, rows)
        return int(without_text)

    def _try(self, source: Composable) -> psycopg2.Error | None:
        """What the database says against one of these rows; None if it took all of them."""
        self._cursor.execute("SAVEPOINT rows")
        try:
            self._cursor.execute(self._statements.put(source, self._batch))
        except psycopg2.Error as error:
            if (error.pgcode or "")[:2] not in OF_A_ROW:
                raise
            self._cursor.execute("ROLLBACK TO rows")
            return error
        self._done.written.update(dict(self._cursor.fetchall()))
        self._cursor.execute("RELEASE rows")
        return None

    def _put_by_halves(self, usable: Composed, count: int) -> None:
        self._cursor.execute(
            SQL(
                "CREATE TEMP TABLE numbered ON COMMIT DROP AS"
                ' SELECT row_number() OVER (ORDER BY partition, "offset") AS number, s.* FROM ({}) s'
            ).format(usable)
        )
        self._cursor.execute("ALTER TABLE numbered ADD PRIMARY KEY (number)")
        self._put_halves_of(1, count)
        if isinstance(self._statements.sink, PostgresUpsert):
            self._count_again()

    def _put_halves_of(self, first: int, last: int) -> None:
        middle = (first + last) // 2
        for low, high in ((first, middle), (middle + 1, last)):
            source = SQL("SELECT * FROM numbered WHERE number BETWEEN {} AND {}").format(Literal(low), Literal(high))
            refusal = self._try(source)
            if refusal is None:
                continue
            if low == high:
                message = refusal.diag.message_primary or first_line(refusal)
                self._reject(source, refusal.pgcode or "", Literal(message))
            else:
                self._put_halves_of(low, high)

    def _reject(self, source: Composable, code: str, message: Composable) -> None:
        self._cursor.execute(
            SQL(
                'INSERT INTO tidemark.reject (target, topic, topic_epoch, partition, "offset", spec_hash, generation, batch,'
                ' code, message, row_as_text) SELECT %s, %s, %s, partition, "offset", %s, %s, %s, %s, {}, {} FROM ({}) s'
                ' RETURNING partition, "offset", message'
            ).format(message, self._as_json(), source),
            [
                *(self._target, self._batch["_topic"], self._batch["_topic_epoch"], self._spec_hash),
                *(self._batch["_generation"], self._batch["_batch_id"], code),
            ],
        )
        rejected = self._cursor.fetchall()
        self._done.rejected.update(partition for partition, *_ in rejected)
        self._told += [f"partition {partition}, offset {offset:,}: {why}" for partition, offset, why in rejected[:TOLD]]
        self._check_budget()

    def _as_json(self) -> Composed:
        """The row by the names of its columns."""
        staged = [name for name in self._statements.staged if name != RECORDS]
        texts = SQL(", ").join(SQL("s.{}").format(Identifier(f"c{number}")) for number in range(len(staged)))
        return SQL("jsonb_object({}, ARRAY[{}])").format(Literal(staged), texts)

    def _check_budget(self) -> None:
        rejected = self._done.rejected.total()
        if rejected > self._budget:
            raise TooManyRejects(
                f"{self._target} refuses more than {self._budget:,} rows of batch {self._batch['_batch_id']}: "
                f"{'; '.join(self._told[:TOLD])}.",
                state="Nothing of this batch was written.",
                next_step="Mend the producer, the stream file or the table, then start the stream again.",
            )

    def _count_again(self) -> None:
        """Rows that one half has written and a later one has replaced were counted twice."""
        self._cursor.execute(
            SQL(
                'SELECT _partition, count(*) FROM {} t JOIN numbered s ON s.partition = t._partition AND s."offset" = t._offset'
                " WHERE t._topic_epoch = %s AND t._generation = %s AND t._batch_id = %s GROUP BY 1"
            ).format(self._statements.wanted.name),
            [self._batch["_topic_epoch"], self._batch["_generation"], self._batch["_batch_id"]],
        )
        self._done.written = Counter(dict(self._cursor.fetchall()))
