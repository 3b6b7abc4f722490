"""A table of PostgreSQL that only the newest generation of its stream writes: fence, adoption, and who may commit (P1.2, P5)."""

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress

from psycopg2.extensions import cursor as Cursor
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql.types import StructType

from include.contract.connections import read_connection
from include.contract.exit_class import ExitClass
from include.contract.places import DatabaseTable
from include.contract.stream_spec import PostgresSink, PostgresTotals
from include.control.generations import Generation
from include.tidemarks.note import Kind, LedgerLine, Note, Tidemark
from include.tidemarks.postgres_connection import DatabaseDown, connect, told
from include.tidemarks.postgres_log import target_of
from include.tidemarks.sink_failure import at_sink
from include.tidemarks.sink_state import SinkState, read_sink
from jobs.exits import classify
from jobs.failpoints import Failpoint, reach
from jobs.postgres.books import append_commit, application_name, digest_of, end_older_sessions, lock_owner, make_books, make_owner
from jobs.postgres.open_batch import OpenPostgresBatch
from jobs.postgres.partial_totals import can_be_added_up, needed_for_totals
from jobs.postgres.staging import Staging
from jobs.postgres.statements import Statements, staged_columns
from jobs.postgres.table_check import check_table, make_or_check
from jobs.postgres.text_forms import PLACES
from jobs.postgres.wanted_table import wanted_table
from jobs.sink import NOTHING, SinkWentBack, check_that_it_was_us, fenced, make_note

NOT_COMMITTED = "Nothing of the batch in hand was committed to it."
TOLD_BY_EXECUTOR = re.compile(r"(?:(?:DatabaseDown: )+|psycopg2\.[\w.]+: )(.+)")
UNKNOWN_OUTCOME = "The transaction in hand was committed as a whole or not at all; the tidemark in the table says which."


class PostgresTableSink:
    refuses, why_it_refuses = NOTHING, ""  # the database itself refuses, row by row

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
        self.adds_up = isinstance(settings, PostgresTotals) and can_be_added_up(settings, shape)
        self.shape = shape
        self.derived: dict[str, Column] = {}
        self._digest = digest_of(self.target)
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
        needed = needed_for_totals(self.settings) if isinstance(self.settings, PostgresTotals) else self.staged
        return [*PLACES, *needed]

    def state(self) -> SinkState:
        with self._named():
            return read_sink(self.place, self.stream, self.sink)

    def fence(self) -> None:
        is_first = self.state().note is None
        with self.transaction() as cursor:
            make_books(cursor)
            if ended := end_older_sessions(cursor, self._digest, self.generation.number):
                print(f"{self.place}: {ended} sessions of older generations were ended", flush=True)
        with self.transaction() as cursor:
            make_owner(cursor, self.target)
            make_or_check(cursor, self.wanted, is_new=is_first)
            self.adds_up = self.adds_up and not self.statements(cursor).judges_each_record
            self.staging.make(cursor)
        with self.transaction() as cursor:
            there = lock_owner(cursor, self.target)
            if there.generation >= self.generation.number:
                check_that_it_was_us(self.stream, self.sink, self.generation, there.generation, there.owner)
                self._version = there.version
                return
            self._append(cursor, make_note(self, Kind.FENCE, there.version, first=is_first), there.version, rows=0)
        with self._named():
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
        if state.version != self._version:
            raise self._went_back(state.version or 0, state.generation)
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

    def open_batch(self) -> OpenPostgresBatch:
        """Looks first: another generation's staging table, or none, would tell less clearly what is the matter."""
        with self.transaction() as cursor:
            self.check_owner(cursor)
        return OpenPostgresBatch(self)

    def statements(self, cursor: Cursor) -> Statements:
        """By the columns as they are now: somebody may have changed the table while the stream runs."""
        return Statements(self.settings, self.wanted, check_table(cursor, self.wanted, is_new=False), self.staged)

    def commit_batch(
        self, cursor: Cursor, tidemark: Tidemark, ledger: list[LedgerLine], quarantine: tuple[int, int] | None, results: int
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
        is_of_windows = tidemark.clock is not None and tidemark.clock.results is not None
        self._append(cursor, note, self._version, rows=results if is_of_windows else sum(line.delivered for line in ledger))

    def check_owner(self, cursor: Cursor) -> None:
        """P3.4: the tidemark is still exactly the one that the rows were filtered by, and the owner is us."""
        there = lock_owner(cursor, self.target)
        if there.owner == self.generation.owner and there.version == self._version:
            return
        if there.generation >= self.generation.number and there.owner != self.generation.owner:
            raise fenced(self.stream, self.sink, self.generation.number, there.generation)
        raise self._went_back(there.version, there.generation)

    def _went_back(self, version: int, generation: int) -> SinkWentBack:
        return SinkWentBack(
            f"{self.place} is at commit {version} of generation {generation}, but was at {self._version} of "
            f"{self.generation.number}: the database went back, to a copy or a backup, or another one answers.",
            state="This driver wrote nothing since; the table holds the tidemark that stands in it now.",
            next_step="Start the stream again: it delivers what is missing.",
            sink=self.sink,
            version=version,
        )

    @contextmanager
    def unless_fenced(self) -> Iterator[None]:
        """Whoever takes the sink over ends our sessions, those of executors too, and drops our staging table; that is how we
        would hear of it."""
        try:
            with self._named():
                yield
        except (DatabaseDown, PySparkException) as down:
            with suppress(DatabaseDown):
                if (newer := self.state().generation) > self.generation.number:
                    raise fenced(self.stream, self.sink, self.generation.number, newer) from down
            raise

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Also where an executor's own Python was told so: Spark passes it on as text."""
        with at_sink(self.stream, self.sink, self.place):
            try:
                yield
            except PySparkException as error:
                said = TOLD_BY_EXECUTOR.search(str(error))
                if said is None or classify(error) is not ExitClass.INFRASTRUCTURE:
                    raise
                raise DatabaseDown(f"on an executor, {said.group(1)}", state=NOT_COMMITTED) from error

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """A connection of its own, so nothing is left of an outage."""
        name = application_name(self._digest, self.generation.number, self.stream)
        with self._named(), told(self._where, UNKNOWN_OUTCOME), closing(connect(self._where, name)) as connection:
            cursor = connection.cursor()
            yield cursor
            connection.commit()

    def _append(self, cursor: Cursor, note: Note, version: int, rows: int) -> None:
        append_commit(cursor, self.target, version + 1, note, rows)
        reach(Failpoint.IN_TRANSACTION)
        cursor.connection.commit()
        self._version = version + 1
        self._newest = note


def check_place(place: DatabaseTable, settings: PostgresSink, shape: StructType, *, is_new: bool) -> None:
    """Before anything is touched: a start that will be refused must not fence a driver that runs well."""
    where = read_connection(place.connection)
    with told(where, "Nothing was written."), closing(connect(where, "tidemark looks")) as connection:
        check_table(connection.cursor(), wanted_table(place, settings, shape), is_new=is_new)
