"""The commits of a window, oldest first: what the table still consists of, ours and others'."""

from itertools import takewhile

from include.tidemarks.commit import Commit, LogUnreadable, SinkLog
from include.tidemarks.sink_state import judge


def commits_after(log: SinkLog, newest: int, version: int) -> list[Commit]:
    """What a RESTORE took away is not among them. What Delta cleaned up before anybody audited it is missing at their beginning:
    the audit then finds a gap."""
    found: list[Commit] = []
    try:
        found.extend(takewhile(lambda commit: commit.version > version, log.standing(newest)))
    except LogUnreadable:
        if not found or found[-1].version > log.oldest_version():
            raise
    return found[::-1]


def commits_between(log: SinkLog, version: int, up_to: int) -> list[Commit]:
    return list(log.between(version, up_to))


def of_one_epoch(commits: list[Commit]) -> list[Commit]:
    """As far as the topic is the same: where it was made anew, a window ends."""
    epochs = [commit.note.tidemark.epoch if commit.note and commit.note.tidemark else None for commit in commits]
    first = next((epoch for epoch in epochs if epoch is not None), None)
    return [commit for commit, _ in takewhile(lambda pair: pair[1] in (first, None), zip(commits, epochs, strict=True))]


def first_mark(commits: list[Commit]) -> dict[int, int]:
    """Where the offsets of these commits begin: what the first batch builds on, or what was adopted if there is none."""
    marks = [commit.note for commit in commits if commit.note and commit.note.tidemark]
    first = next((note for note in marks if note.ledger), marks[-1])
    before = first.builds_on
    if first.ledger and before is not None and first.tidemark and before.epoch == first.tidemark.epoch:
        return dict(before.offsets)
    return dict(first.tidemark.offsets) if first.tidemark else {}


def foreign_changes(commits: list[Commit], stream: str, sink: str) -> list[Commit]:
    """By others, with rows: a RESTORE is none, for the walk over the commits follows it."""
    return [commit for commit in commits if commit.operation != "RESTORE" and _changes_rows(commit, stream, sink)]


def _changes_rows(commit: Commit, stream: str, sink: str) -> bool:
    is_ours = commit.note is not None and commit.note.is_of(stream, sink)
    return not is_ours and (judge(commit, stream, sink) is not None or commit.rows_added != 0)
