"""Tells the control database how the stream is doing, beside the stream and never in its way; hears there that it should stop.

While the database is down the stream goes on; what was to be told is kept, and the ledger is copied from the sinks' own logs.
"""

import threading
import time
from collections import deque
from collections.abc import Callable

from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass
from include.contract.places import Place
from include.control.batch_limits import note_good_batches, note_too_big
from include.control.database import ControlDatabase
from include.control.drivers import has_ended, mark_seen
from include.control.generations import Generation
from include.control.journal import write_journal
from include.control.ledger_copy import catch_up
from include.control.progress import (
    DriverExit,
    FinishedBatch,
    is_stop_requested,
    record_batches,
    record_exit,
)
from include.tidemarks.sink_state import read_sink

EVERY_SECONDS = 1.0
COPY_EVERY_SECONDS = 5.0  # of a stream that delivers nothing: what others did to its tables
KEPT_BATCHES = 10_000  # half a day of 5-second batches; older progress is forgotten, the ledger is not
LAST_WORDS_SECONDS = 20  # a driver's end does not wait longer for a database that does not answer
# P3.9; killed, perhaps, by the kernel for lack of memory; stuck: a sink broke the batch off at a deadline
TOO_BIG = (ExitClass.OUT_OF_MEMORY, ExitClass.KILLED, ExitClass.STUCK)
ACTOR = "driver"


class Reporter:
    """Everything is told by one daemon thread, so nothing that the database does can hold the driver."""

    def __init__(
        self, control: ControlDatabase, launch: str, stream: Stream, sinks: dict[str, Place], ask_to_stop: Callable[[str], None]
    ) -> None:
        self._control = control
        self._launch = launch
        self._stream = stream.name
        self._declared = stream.spec.source.max_records_per_batch
        self._is_stateful = stream.spec.is_stateful
        self._sinks = sinks
        self._ask_to_stop = ask_to_stop
        self._generation: int | None = None
        self._untold: deque[FinishedBatch] = deque(maxlen=KEPT_BATCHES)
        self._is_down = False
        self._copied_at = float("-inf")
        self._ended = threading.Event()
        self._last_words: tuple[DriverExit, int] | None = None
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def know(self, generation: Generation | None) -> None:
        """None if none was taken."""
        self._generation = generation.number if generation else None

    def start(self) -> None:
        self._thread.start()

    def batch_finished(self, batch: FinishedBatch) -> None:
        self._untold.append(batch)

    def finish(self, ended: DriverExit, records_per_batch: int) -> None:
        self._last_words = (ended, records_per_batch)
        self._ended.set()
        if self._thread.ident is None:
            self.start()
        self._thread.join(LAST_WORDS_SECONDS)

    def _run(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            self._try(self._tell)
        self._try(self._tell)
        self._try(self._tell_the_end)

    def _try(self, tell: Callable[[], None]) -> None:
        """Whatever goes wrong here is told once, and is no reason for a stream to end."""
        try:
            if self._is_down:
                self._control.migrate()  # it may have come back empty
            tell()
        except Exception as error:  # noqa: BLE001
            if not self._is_down:
                print(f"The stream goes on, but the control database was not told: {error}", flush=True)
            self._is_down = True
            return
        if self._is_down:
            print("The control database is back.", flush=True)
        self._is_down = False

    def _tell(self) -> None:
        if self._generation is None:
            return
        batches = list(self._untold)
        with self._control.transaction() as cursor:
            if is_stop_requested(cursor, self._stream, self._generation):
                self._ask_to_stop("a stop request in the control database")
            if has_ended(cursor, self._launch):
                self._ask_to_stop("supervision has given this driver up")
            mark_seen(cursor, self._launch)
            record_batches(cursor, self._stream, self._generation, batches)
            note_good_batches(cursor, self._stream, len(batches), self._declared)
        for batch in batches:
            self._untold.remove(batch)
        if batches or self._ended.is_set() or time.monotonic() > self._copied_at + COPY_EVERY_SECONDS:
            self._copy_ledgers()

    def _copy_ledgers(self) -> None:
        """Until nothing is left to copy, and again if it fails, with every look."""
        self._copied_at = float("-inf")
        copied = [catch_up(self._control, self._stream, sink, place) for sink, place in self._sinks.items()]
        if not any(copied):
            self._copied_at = time.monotonic()

    def _tell_the_end(self) -> None:
        if self._last_words is None:
            return
        ended, records_per_batch = self._last_words
        with self._control.transaction() as cursor:
            if not record_exit(cursor, self._launch, self._stream, self._generation, ended):
                return
            if ended.exit_class in TOO_BIG and not self._is_stateful:  # whose third such end is an incident
                note_too_big(cursor, self._stream, ended.exit_class.title, self._lowest(), records_per_batch)
            title = ended.exit_class.title
            write_journal(cursor, self._stream, "exit", actor=ACTOR, generation=self._generation, exit_class=title)

    def _lowest(self) -> dict[int, int]:
        """Where the batch that was too big began."""
        marks = [mark for sink, place in self._sinks.items() if (mark := read_sink(place, self._stream, sink).tidemark)]
        return {number: min(mark.next_offset(number) for mark in marks) for mark in marks for number in mark.offsets}
