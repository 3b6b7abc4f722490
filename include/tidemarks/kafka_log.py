"""The commits of a Kafka sink: partition 0 of the topic `<output>.tidemarks`, one record each, written by the driver alone (P5).

What is delivered stands in the marks, which commit with the outputs, slot by slot. The log is written after all
slots of a batch, with one note for the whole of it; what a driver that died had not told is told by whoever fences it.
"""

import hashlib
import os
from collections.abc import Hashable, Iterator
from functools import lru_cache
from threading import RLock

from include.contract.connections import read_connection
from include.contract.identity import tidemarks_topic, transaction_app_id
from include.contract.places import OutputTopic
from include.tidemarks.commit import Commit, LogUnreadable
from include.tidemarks.kafka_records import LOG_PARTITION, LogRecord, read_log_record
from include.tidemarks.note import Kind, read_note, transaction_version
from include.topics.committed import read_committed
from include.topics.topic import Topic, TopicMissing, TopicState

PAGE = 200  # offsets: a commit and the end of its transaction take two


def log_in(place: OutputTopic) -> "KafkaLog":
    """One client and one memory of what was read for as long as a process lives; a client does not survive a fork."""
    return _log(place, read_connection(place.connection).address, os.getpid())


@lru_cache(maxsize=64)
def _log(place: OutputTopic, address: str, _process: int) -> "KafkaLog":
    return KafkaLog(place, address)


class KafkaLog:
    def __init__(self, place: OutputTopic, address: str) -> None:
        self._place = place
        self._address = address
        self._topic = Topic(address, tidemarks_topic(place.topic))
        self._output = Topic(address, place.topic)
        self._lock = RLock()
        self._topic_id = ""
        self._commits: dict[int, Commit] = {}  # by version: those between two offsets of the log
        self._offsets: dict[int, int] = {}  # where each of them stands
        self._earliest = self._from = self._to = 0

    @property
    def table(self) -> str:
        return str(self._place)

    def topic_id(self) -> str | None:
        """None if the log is gone."""
        return self._topic.lasting_id()

    def newest_version(self) -> int | None:
        with self._lock:
            self._refresh()
            while not self._commits and self._from > self._earliest:
                self._read_older()
            return max(self._commits, default=None)

    def oldest_version(self) -> int:
        with self._lock:
            self._refresh()
            while self._from > self._earliest:
                self._read_older()
            return min(self._commits, default=0)

    def has(self, version: int) -> bool:
        return self.identity_of(version) is not None

    def identity_of(self, version: int) -> Hashable | None:
        with self._lock:
            self._refresh()
            found = self._find(version)
        return hashlib.sha256((found.user_metadata or "").encode()).hexdigest() if found else None

    def commit(self, version: int) -> Commit:
        found = self._find(version)
        if found is None:
            raise self._unreadable(version)
        return found

    def between(self, after: int, up_to: int) -> Iterator[Commit]:
        for version in range(after + 1, up_to + 1):
            yield self.commit(version)

    def after(self, version: int) -> Iterator[Commit]:
        newest = self.newest_version()
        yield from self.between(version, -1 if newest is None else newest)

    def standing(self, newest: int) -> Iterator[Commit]:
        """There is no RESTORE; what was compacted away cannot be read."""
        for version in range(newest, -1, -1):
            yield self.commit(version)

    def restored_version(self, restore: Commit) -> int:
        raise self._unreadable(restore.version)

    def newest_with_transaction(self, app_id: str) -> tuple[int, int | None]:
        """A fence may be followed by the last commit of the driver that it fenced: see above."""
        newest = self.newest_version() or 0
        both = [self._find(version) for version in (newest, newest - 1)]
        numbers = [found.transactions[app_id] for found in both if found is not None and app_id in found.transactions]
        return newest, max(numbers, default=None)

    def has_rows(self) -> bool:
        """Of the output topic, which may not be there yet."""
        try:
            state = self._output.state()
        except TopicMissing:
            return False
        return any(state.earliest[number] < end for number, end in state.latest.items())

    def _find(self, version: int) -> Commit | None:
        """What was read is not asked for again: a commit does not change."""
        with self._lock:
            if version not in self._commits:
                self._refresh()
            while 0 <= version < min(self._commits, default=version + 1) and self._from > self._earliest:
                self._read_older()
            return self._commits.get(version)

    def _refresh(self) -> None:
        """A look costs a round trip, and what was committed since the last one."""
        if (state := self._state()) is None:
            self._forget("")
            return
        end = state.stable[LOG_PARTITION]
        if state.topic_id != self._topic_id or end < self._to:
            self._forget(state.topic_id)
            self._from = self._to = max(state.earliest[LOG_PARTITION], end - PAGE)
        self._earliest = state.earliest[LOG_PARTITION]
        self._read(self._to, end)
        self._to = end
        self._let_go()

    def _state(self) -> TopicState | None:
        """None if there is no such topic: one that was there is given a while to be there again."""
        try:
            return self._topic.state()
        except TopicMissing:
            return self._topic.state() if self._topic_id and self._topic.lasting_id() else None

    def _let_go(self) -> None:
        """A driver runs for weeks: of what it has read it keeps the newest part, and reads older commits again when asked."""
        if len(self._commits) > 2 * PAGE:
            for version in sorted(self._commits)[:-PAGE]:
                del self._commits[version], self._offsets[version]
            self._from = min(self._offsets.values())

    def _read_older(self) -> None:
        """As much again as is known, so that a long way back takes few steps."""
        start = max(self._earliest, self._from - max(PAGE, self._to - self._from))
        self._read(start, self._from)
        self._from = start

    def _read(self, start: int, end: int) -> None:
        if start < end:
            for record in read_committed(self._address, self._topic.name, {LOG_PARTITION: (start, end)}):
                if record.value is not None:
                    told = read_log_record(self._topic.name, record.offset, record.value)
                    self._commits[told.version], self._offsets[told.version] = _commit(told), record.offset

    def _forget(self, topic_id: str) -> None:
        self._topic_id = topic_id
        self._commits.clear()
        self._offsets.clear()
        self._earliest = self._from = self._to = 0

    def _unreadable(self, version: int) -> LogUnreadable:
        return LogUnreadable(
            f"Commit {version} of {self.table} is not in {self._topic.name}, so what happened there is not known.",
            state="The stream wrote nothing since.",
            next_step="Find out who deleted records or the whole of that topic; nothing but compaction may remove them.",
            version=version,
        )


def _commit(told: LogRecord) -> Commit:
    note = read_note(told.version, told.note)
    number = transaction_version(note.generation, note.tidemark.batch if note.tidemark else None) if note else 0
    of = {transaction_app_id(note.stream, note.sink): number} if note else {}
    records = told.records if note and note.kind is Kind.BATCH else 0
    more = told.model_dump(exclude={"version", "note", "records"})
    return Commit(told.version, note.kind.upper() if note else "?", more, told.note, of, 0, records, table_id=None)
