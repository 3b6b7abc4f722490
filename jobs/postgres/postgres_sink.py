"""A table of PostgreSQL that only the newest generation of its stream writes (P1.2, P5).

A batch: 1. executors stage its rows; 2. one transaction of the driver's: the owner's row is locked, owner and version are
checked, 3. the staged rows are counted and put in, refused ones into the rejects, 4. the commit with tidemark and ledger is
appended. Its end may be unknown, if the connection breaks in COMMIT: then the driver ends, and the next start reads the tidemark.
"""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress

from psycopg2.extensions import cursor as Cursor
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from include.contract.connections import read_connection
from include.contract.places import DatabaseTable
from include.contract.stream_spec import PostgresInsertNew, PostgresSink
from include.control.generations import Generation
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark
from include.tidemarks.postgres_connection import DatabaseDown, connect, told
from include.tidemarks.postgres_log import target_of
from include.tidemarks.sink_state import SinkState, read_sink
from jobs.failpoints import Failpoint, reach
from jobs.postgres.books import append_commit, application_name, end_older_sessions, lock_owner, make_books, make_owner
from jobs.postgres.putting_in import PutIn, Putting
from jobs.postgres.staging import Staged, Staging
from jobs.postgres.statements import Statements, staged_columns
from jobs.postgres.table_check import check_table, make_or_check
from jobs.postgres.text_forms import PLACES, as_texts
from jobs.postgres.wanted_table import wanted_table
from jobs.sink import SinkWentBack, check_that_it_was_us, fenced, make_note

UNKNOWN_OUTCOME = "The transaction in hand was committed as a whole or not at all; the tidemark in the table says which."


class PostgresTableSink:
    def __init__(
        self,
        place: DatabaseTable,
        stream: str,
        sink: str,
        topic: str,
        settings: PostgresSink,
        shape: StructType,
        generation: Generation,
        spec_hash: str,
    ) -> None:
        self.place = place
        self.stream = stream
        self.sink = sink
        self.generation = generation
        self.spec_hash = spec_hash
        self.settings = settings
        self.topic = topic
        self.target = target_of(place)
        self.wanted = wanted_table(place, settings, shape)
        self.staged = staged_columns(settings, shape.names)
        self.shape = shape
        self._digest = hashlib.sha256(self.target.encode()).hexdigest()[:12]
        self._where = read_connection(place.connection)
        self._version = -1
        self._newest: Note | None = None
        self.staging = Staging(
            self._where,
            application_name(self._digest, generation.number, "copy"),
            f"staging_{self._digest}_{generation.number}",
            len(self.staged),
        )

    @property
    def tidemark(self) -> Tidemark:
        if self._newest is None or self._newest.tidemark is None:
            raise ValueError(f"{self.sink} is not adopted yet")
        return self._newest.tidemark

    @property
    def columns(self) -> list[str]:
        return [*PLACES, *self.staged]

    def state(self) -> SinkState:
        return read_sink(self.place, self.stream, self.sink)

    def fence(self) -> None:
        is_first = self.state().note is None
        with self.transaction() as cursor:
            make_books(cursor)
            if ended := end_older_sessions(cursor, self._digest, self.generation.number):
                print(f"{self.place}: {ended} sessions of older generations were ended", flush=True)
        with self.transaction() as cursor:
            make_owner(cursor, self.target)
            self.there = make_or_check(cursor, self.wanted)
            self.staging.make(cursor)
        with self.transaction() as cursor:
            there = lock_owner(cursor, self.target)
            if there.generation >= self.generation.number:
                check_that_it_was_us(self.stream, self.sink, self.generation, there.generation, there.owner)
                self._version = there.version
                return
            self._append(cursor, make_note(self, Kind.FENCE, there.version, first=is_first), there.version, rows=0)
        self.staging.drop_older()

    def adopt(
        self,
        state: SinkState,
        tidemark: Tidemark,
        *,
        pinned: bool,
        losses: Iterable[LedgerLine] = (),
        quarantine: tuple[int, int] | None = None,
    ) -> None:
        note = make_note(
            self,
            Kind.ADOPT,
            self._version,
            tidemark=tidemark,
            builds_on=state.tidemark,
            made_by=state.note.made_by if state.note else None,
            ledger=tuple(losses),
            quarantine=quarantine,
            pinned=pinned,
        )
        with self.transaction() as cursor:
            self.check_owner(cursor)
            self._append(cursor, note, self._version, rows=0)

    def open_batch(self) -> "OpenPostgresBatch":
        """Looks first: another generation's staging table, or none, would tell less clearly what is the matter."""
        with self.transaction() as cursor:
            self.check_owner(cursor)
        return OpenPostgresBatch(self)

    def statements(self) -> Statements:
        return Statements(self.settings, self.wanted, self.there, self.staged)

    def commit_batch(
        self, cursor: Cursor, tidemark: Tidemark, ledger: list[LedgerLine], quarantine: tuple[int, int] | None
    ) -> None:
        note = make_note(
            self,
            Kind.BATCH,
            self._version,
            tidemark=tidemark,
            builds_on=self.tidemark,
            made_by=self.spec_hash,
            ledger=tuple(ledger),
            quarantine=quarantine,
        )
        self._append(cursor, note, self._version, rows=sum(line.delivered for line in ledger))

    def check_owner(self, cursor: Cursor) -> None:
        """P3.4: the tidemark is still exactly the one that the rows were filtered by, and the owner is us."""
        there = lock_owner(cursor, self.target)
        if there.owner == self.generation.owner and there.version == self._version:
            return
        if there.generation >= self.generation.number and there.owner != self.generation.owner:
            raise fenced(self.stream, self.sink, self.generation.number, there.generation)
        raise SinkWentBack(
            f"{self.place} is at commit {there.version} of generation {there.generation}, but was at {self._version} of "
            f"{self.generation.number}: the database went back, to a copy or a backup.",
            state="This driver wrote nothing since; the table holds the tidemark that stands in it now.",
            next_step="Start the stream again: it delivers what is missing.",
            sink=self.sink,
            version=there.version,
        )

    @contextmanager
    def unless_fenced(self) -> Iterator[None]:
        """Whoever takes the sink over ends our session; that is how we would hear of it."""
        try:
            yield
        except DatabaseDown as down:
            with suppress(DatabaseDown):
                if (newer := self.state().generation) > self.generation.number:
                    raise fenced(self.stream, self.sink, self.generation.number, newer) from down
            raise

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """A connection of its own, so nothing is left of an outage."""
        name = application_name(self._digest, self.generation.number, self.stream)
        with told(self._where, UNKNOWN_OUTCOME), closing(connect(self._where, name)) as connection:
            cursor = connection.cursor()
            yield cursor
            connection.commit()

    def _append(self, cursor: Cursor, note: Note, version: int, rows: int) -> None:
        append_commit(cursor, self.target, version + 1, note, rows)
        reach(Failpoint.IN_TRANSACTION)
        cursor.connection.commit()
        self._version = version + 1
        self._newest = note


class OpenPostgresBatch:
    def __init__(self, sink: PostgresTableSink) -> None:
        self._sink = sink
        self._staged = Staged([], 0)

    def write(self, rows: DataFrame) -> int:
        self._staged = self._sink.staging.write(as_texts(rows, self._sink.shape, self._sink.staged))  # 1
        return self._staged.rows

    def commit(
        self, tidemark: Tidemark, ledger: Iterable[LedgerLine], quarantine: tuple[int, int] | None = None
    ) -> list[LedgerLine]:
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
            putting = Putting(cursor, sink.statements(), sink.staging, batch, sink.target, sink.spec_hash)
            done = putting.put(self._staged)  # 3
            booked = [_as_put_in(line, done, sink.settings) for line in ledger]
            sink.commit_batch(cursor, tidemark, booked, quarantine)  # 4
        if self._staged.rows:
            sink.staging.empty()
        return booked


def _as_put_in(line: LedgerLine, done: PutIn, settings: PostgresSink) -> LedgerLine:
    """Of the rows that were staged, some were refused, and some were not needed."""
    written, rejected = done.written[line.partition], done.rejected[line.partition]
    left_out = line.delivered - written - rejected
    kind = "duplicates" if isinstance(settings, PostgresInsertNew) else "superseded"
    return line.model_copy(update={"delivered": written, "rejected": rejected, kind: left_out})


def check_place(place: DatabaseTable, settings: PostgresSink, shape: StructType) -> None:
    """Before anything is touched: a start that will be refused must not fence a driver that runs well."""
    with closing(connect(read_connection(place.connection), "tidemark looks")) as connection, connection.cursor() as cursor:
        check_table(cursor, wanted_table(place, settings, shape))
