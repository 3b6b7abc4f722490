"""Audits a window's ledger without Spark: lines continuous, equation true, Delta's own row counts equal, nobody else's rows.

Reads the window's commits alone, so its cost follows what is new. By induction over windows it covers the table's whole
history: whatever was added or removed since the last window is accounted for, or is a finding.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from include.contract.places import Place
from include.control.database import ControlDatabase
from include.control.ledger_copy import CopiedLine, read_copied
from include.control.window_contents import Audited, Booked, Segment
from include.control.windows import Window
from include.reconciliation.commits import commits_after, commits_between, foreign_changes
from include.tidemarks.commit import Commit
from include.tidemarks.logs import log_of
from include.tidemarks.note import Kind, LedgerLine, Note

COUNTS = tuple(Booked.model_fields)
TOLD = 20  # findings; more of them say nothing new


def audit_window(control: ControlDatabase, window: Window, place: Place) -> Audited:
    log = log_of(place)
    commits = (
        commits_between(log, window.after_version, window.up_to_version)
        if window.by_hand
        else commits_after(log, window.up_to_version, window.after_version)
    )
    with control.transaction() as cursor:
        copied = read_copied(cursor, window.stream, window.sink, window.after_version, window.up_to_version)
    return audit(window, commits, copied)


def audit(window: Window, commits: list[Commit], copied: Mapping[int, list[CopiedLine]]) -> Audited:
    """Pure. `copied`: the control database's lines, by version of the table."""
    walk = _Walk(window)
    for commit in commits:
        note = commit.note
        if note is not None and note.is_of(window.stream, window.sink) and note.tidemark is not None:
            walk.take(commit, note)
            walk.compare(commit.version, note, copied.get(commit.version, []))
    strangers = foreign_changes(commits, window.stream, window.sink)
    for commit in strangers:
        walk.findings.append(_stranger(commit))
    walk.end()
    return Audited(
        segments=tuple(_merged(walk.segments)),
        booked={number: Booked(**counts) for number, counts in walk.booked.items()},
        findings=tuple(walk.findings[:TOLD]),
        gaps=walk.gaps,
        rows_of_others=sum(commit.rows_added or commit.files_removed or 1 for commit in strangers),
    )


@dataclass
class _Walk:
    """From commit to commit: where each partition stands, and what was booked on the way."""

    window: Window
    mark: dict[int, int] = field(init=False)
    booked: dict[int, dict[str, int]] = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    gaps: int = 0

    def __post_init__(self) -> None:
        self.mark = dict(self.window.starts)
        self.booked = {number: dict.fromkeys(COUNTS, 0) for number in self.window.ranges}

    def take(self, commit: Commit, note: Note) -> None:
        for line in note.ledger:
            self._take_line(commit.version, note, line)
        if note.kind is Kind.BATCH:
            self._compare_rows(commit, note)
        if note.tidemark is not None and note.made_by is not None:
            self._step(f"the tidemark of version {commit.version}", note.tidemark.offsets, note.spec_hash)

    def _take_line(self, version: int, note: Note, line: LedgerLine) -> None:
        self._step(f"the ledger line of version {version}", {line.partition: line.start}, note.spec_hash)
        if line.lost:
            self._book(line)
        else:
            self._check_equation(version, line)
            self._book(line)
            self._add_segment(line.partition, line.start, line.end, note.spec_hash)
        self.mark[line.partition] = max(line.end, self.mark.get(line.partition, 0))

    def _step(self, what: str, offsets: Mapping[int, int], spec_hash: str) -> None:
        """Each thing begins where the one before it ended."""
        for number, offset in offsets.items():
            there = self.mark.get(number, 0)
            if offset == there:
                continue
            kind = "leaves a gap" if offset > there else "overlaps"
            span = f"{min(there, offset):,} to {max(there, offset):,}"
            self.findings.append(f"partition {number}: {what} {kind}, offsets {span} of the ledger")
            self.gaps += 1
            if offset > there:
                self._add_segment(number, there, offset, spec_hash)
                self.mark[number] = offset

    def _check_equation(self, version: int, line: LedgerLine) -> None:
        accounted = Booked(**{name: getattr(line, name) for name in COUNTS}).accounted
        if line.read != accounted:
            self.findings.append(
                f"partition {line.partition}: version {version} books {line.read:,} records read for offsets {line.start:,} to "
                f"{line.end:,}, but {accounted:,} accounted for"
            )

    def _compare_rows(self, commit: Commit, note: Note) -> None:
        results = note.tidemark.clock.results if note.tidemark and note.tidemark.clock else None
        delivered = sum(line.delivered for line in note.ledger) if results is None else results
        if commit.rows_added != delivered:
            self.findings.append(
                f"version {commit.version} books {delivered:,} delivered, but Delta's log counts {commit.rows_added} rows in it"
            )

    def compare(self, version: int, note: Note, copied: list[CopiedLine]) -> None:
        """The control database's copy is compared with the sink's own word."""
        ours = {CopiedLine(line=line, spec_hash=note.spec_hash) for line in note.ledger}
        if ours != set(copied):
            partitions = sorted({one.line.partition for one in ours ^ set(copied)})
            self.findings.append(
                f"version {version}: the control database's copy is not what the table says (partitions {partitions})"
            )

    def end(self) -> None:
        for number, (_, end) in self.window.ranges.items():
            self._step("the window's end", {number: end}, "")

    def _book(self, line: LedgerLine) -> None:
        booked = self.booked.setdefault(line.partition, dict.fromkeys(COUNTS, 0))
        for name in booked:
            booked[name] += getattr(line, name)

    def _add_segment(self, partition: int, start: int, end: int, spec_hash: str) -> None:
        self.segments.append(Segment(partition=partition, start=start, end=end, spec_hash=spec_hash))


def _merged(segments: Iterable[Segment]) -> list[Segment]:
    merged: list[Segment] = []
    for one in sorted(segments, key=lambda segment: (segment.partition, segment.start)):
        last = merged[-1] if merged else None
        if last and (last.partition, last.end, last.spec_hash) == (one.partition, one.start, one.spec_hash):
            merged[-1] = last.model_copy(update={"end": one.end})
        else:
            merged.append(one)
    return merged


def _stranger(commit: Commit) -> str:
    done = [f"added {commit.rows_added:,} rows"] if commit.rows_added else []
    done += [f"removed {commit.files_removed:,} files with their rows"] if commit.files_removed else []
    return f"somebody's {commit.operation} (version {commit.version}) {' and '.join(done) or 'changed the table'}"
