"""Follows one sink from look to look: a look costs what was committed since the last one, not the table's history."""

from collections.abc import Hashable
from dataclasses import replace

from include.contract.identity import transaction_app_id
from include.contract.places import Place
from include.tidemarks.commit import Commit, SinkLog
from include.tidemarks.logs import looking_at
from include.tidemarks.note import Kind
from include.tidemarks.sink_state import SinkState, judge, read_sink


class SinkWatch:
    """`look` answers like `read_sink`, which it asks whenever something happened that is not plainly ours."""

    def __init__(self, place: Place, stream: str, sink: str) -> None:
        self._place = place
        self._stream = stream
        self._sink = sink
        self._app_id = transaction_app_id(stream, sink)
        self._state: SinkState | None = None
        self._seen: Hashable | None = None  # of the newest commit: a table that was put back has another

    def look(self) -> SinkState:
        before, self._state = self._state, None  # should the look fail, the next one begins anew
        with looking_at(self._place) as log:
            if before is None or before.version is None or not self._is_same(log, before.version):
                state = read_sink(self._place, self._stream, self._sink)
            else:
                state = self._advanced(log, before)
            self._seen = log.identity_of(state.version) if state.version is not None else None
        self._state = state
        return state

    def _is_same(self, log: SinkLog, version: int) -> bool:
        return self._seen is not None and log.identity_of(version) == self._seen

    def _advanced(self, log: SinkLog, state: SinkState) -> SinkState:
        for commit in log.after(state.version if state.version is not None else -1):
            following = self._following(state, commit)
            if following is None:
                return read_sink(self._place, self._stream, self._sink)
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
        unseen = tuple(change for change in state.changes if change.version > note.looked)
        return replace(moved, note=note, changes=unseen, restored=state.restored and note.kind is not Kind.BATCH)
