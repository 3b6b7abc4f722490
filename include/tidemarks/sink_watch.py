"""Follows one sink from look to look: a look costs what was committed since the last one, not the table's history."""

from dataclasses import replace
from os import stat_result

from include.contract.identity import transaction_app_id
from include.tidemarks.delta_log import Commit, DeltaLog
from include.tidemarks.delta_sink import SinkState, judge, read_sink
from include.tidemarks.note import Kind


class SinkWatch:
    """`look` answers like `read_sink`, which it asks whenever something happened that is not plainly ours."""

    def __init__(self, table: str, stream: str, sink: str) -> None:
        self._log = DeltaLog(table)
        self._stream = stream
        self._sink = sink
        self._app_id = transaction_app_id(stream, sink)
        self._state: SinkState | None = None
        self._seen: stat_result | None = None  # of the newest commit's file: a table that was put back has another

    def look(self) -> SinkState:
        before, self._state = self._state, None  # should the look fail, the next one begins anew
        if before is None or before.version is None or not self._is_same(before.version):
            state = read_sink(self._log.table, self._stream, self._sink)
        else:
            state = self._advanced(before)
        self._seen = self._log.stat(state.version) if state.version is not None else None
        self._state = state
        return state

    def _is_same(self, version: int) -> bool:
        there, seen = self._log.stat(version), self._seen
        return there is not None and seen is not None and (there.st_ino, there.st_mtime_ns) == (seen.st_ino, seen.st_mtime_ns)

    def _advanced(self, state: SinkState) -> SinkState:
        for commit in self._log.after(state.version if state.version is not None else -1):
            following = self._following(state, commit)
            if following is None:
                return read_sink(self._log.table, self._stream, self._sink)
            state = following
        return state

    def _following(self, state: SinkState, commit: Commit) -> SinkState | None:
        note = commit.note
        if note is None:
            is_harmless = judge(commit, self._stream, self._sink) is None and self._app_id not in commit.transactions
            return replace(state, version=commit.version) if is_harmless else None
        if not note.is_of(self._stream, self._sink) or note.generation < state.generation:
            return None
        moved = replace(state, version=commit.version, generation=note.generation, owner=note.owner)
        if note.tidemark is None:
            return moved
        if note.builds_on != state.tidemark:
            return None
        return replace(moved, note=note, changes=(), restored=state.restored and note.kind is Kind.ADOPT)
