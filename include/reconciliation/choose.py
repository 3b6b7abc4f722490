"""Chooses the next window of a sink: from where the last one ended to the tidemark, in whole commits (P7.1, P7.2).

A window is a run of commits. Their notes say by which offsets each moved the tidemark, so a window ends where a commit ends.
"""

from collections.abc import Mapping

from include.contract.errors import TidemarkError
from include.contract.places import Place
from include.control.database import ControlDatabase
from include.control.ledger_copy import catch_up, versions_of
from include.control.windows import Chosen, Window, newest_closed, reopen, write_window
from include.reconciliation.commits import commits_after, commits_between, first_mark, foreign_changes, of_one_epoch
from include.tidemarks.commit import Commit, SinkLog
from include.tidemarks.logs import log_of
from include.tidemarks.note import Tidemark
from include.tidemarks.sink_state import read_sink

WINDOW_RECORDS = 5_000_000  # measured in about a minute on 2 cores; a longer backlog is judged in several runs


class RangeUnknown(TidemarkError):
    """A window that was asked for by hand, of offsets that no commit is known to hold."""


def choose_window(control: ControlDatabase, stream: str, sink: str, place: Place, run: str) -> Window | None:
    """None if the sink has no tidemark yet, or nothing has happened to it since the last window."""
    state = read_sink(place, stream, sink)
    if state.tidemark is None or state.version is None:
        return None
    _complete_copy(control, stream, sink, place)
    last, commits = _reopen_what_went_back(control, stream, sink, log_of(place), state.version)
    chosen = _choose(stream, sink, run, last, commits, state.version)
    if chosen is None:
        return None
    with control.transaction() as cursor:
        return write_window(cursor, chosen)


def choose_by_hand(
    control: ControlDatabase, stream: str, sink: str, place: Place, run: str, ranges: Mapping[int, tuple[int, int]]
) -> Window:
    """The smallest run of commits that holds these offsets, in the table as it is now."""
    state = read_sink(place, stream, sink)
    if state.tidemark is None or state.version is None:
        raise _unknown(stream, sink, ranges)
    _complete_copy(control, stream, sink, place)
    with control.transaction() as cursor:
        versions = [versions_of(cursor, stream, sink, state.tidemark.epoch, number, *span) for number, span in ranges.items()]
        if None in versions:
            raise _unknown(stream, sink, ranges)
    known = [span for span in versions if span is not None]
    after, up_to = min(first for first, _ in known) - 1, max(last for _, last in known)
    commits = commits_between(log_of(place), after, up_to)
    mark = _newest_mark(commits)
    if mark is None:
        raise _unknown(stream, sink, ranges)
    starts = first_mark(commits)
    chosen = Chosen(stream, sink, run, True, mark.epoch, mark.topic_id, after, up_to, state.version, starts, mark.offsets)
    with control.transaction() as cursor:
        return write_window(cursor, chosen)


def _complete_copy(control: ControlDatabase, stream: str, sink: str, place: Place) -> None:
    """The driver copies its ledger as it goes; what it had not told when it died is copied here."""
    while catch_up(control, stream, sink, place):
        pass


def _choose(stream: str, sink: str, run: str, last: Window | None, commits: list[Commit], newest: int) -> Chosen | None:
    within = _no_more_than(WINDOW_RECORDS, of_one_epoch(commits))
    mark = _newest_mark(within)
    if mark is None and last is None:
        return None
    up_to = newest if len(within) == len(commits) else within[-1].version
    changed = foreign_changes(within, stream, sink)
    if mark is None:
        if last is None or not changed:
            return None
        return Chosen(
            stream, sink, run, False, last.epoch, last.topic_id, last.up_to_version, up_to, newest, last.ends, last.ends
        )
    starts = last.ends if last and last.epoch == mark.epoch else first_mark(within)
    after = last.up_to_version if last else -1
    chosen = Chosen(stream, sink, run, False, mark.epoch, mark.topic_id, after, up_to, newest, starts, mark.offsets)
    return chosen if chosen.ranges or changed else None  # a start that delivered nothing leaves nothing to judge


def _no_more_than(records: int, commits: list[Commit]) -> list[Commit]:
    """As many as hold so many records, and at least one batch."""
    read = 0
    for place, commit in enumerate(commits):
        here = sum(line.read for line in commit.note.ledger) if commit.note else 0
        if read and read + here > records:
            return commits[:place]
        read += here
    return commits


def _newest_mark(commits: list[Commit]) -> Tidemark | None:
    return next((commit.note.tidemark for commit in reversed(commits) if commit.note and commit.note.tidemark), None)


def _reopen_what_went_back(
    control: ControlDatabase, stream: str, sink: str, log: SinkLog, newest: int
) -> tuple[Window | None, list[Commit]]:
    """P7.2: what was judged of commits that a RESTORE took away, or that a table put back from a backup does not have, is not
    there any more. Returns the window to go on from, and the commits since."""
    while True:
        with control.transaction() as cursor:
            last = newest_closed(cursor, stream, sink)
        commits = commits_after(log, newest, last.up_to_version if last else -1)
        if last is None or (newest >= last.up_to_version and not _go_back_below(log, commits, last.up_to_version)):
            return last, commits
        with control.transaction() as cursor:
            reopen(cursor, last.id, f"The table went back: commit {last.up_to_version}, with which this window ended, is gone.")


def _go_back_below(log: SinkLog, commits: list[Commit], version: int) -> bool:
    return any(commit.operation == "RESTORE" and log.restored_version(commit) < version for commit in commits)


def _unknown(stream: str, sink: str, ranges: Mapping[int, tuple[int, int]]) -> RangeUnknown:
    asked = ", ".join(f"{number}: {start:,} to {end:,}" for number, (start, end) in sorted(ranges.items()))
    return RangeUnknown(
        f"Sink {sink} of {stream} has no commits that hold all of {asked}.",
        state="Nothing was judged.",
        next_step="Choose offsets between where the stream began and the sink's tidemark; `make plan STREAM=...` shows it.",
    )
