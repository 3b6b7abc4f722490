"""The steps of a reconciliation without Airflow: choose, audit, (measure, on Spark), judge, publish. Each may be repeated."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.places import Places
from include.control.database import ControlDatabase
from include.control.windows import Window, windows_of_day, windows_of_run, write_audited
from include.reconciliation.audit import audit_window
from include.reconciliation.choose import choose_by_hand, choose_window
from include.reconciliation.complete import CompleteThrough, complete_through
from include.reconciliation.report import write_day_page, write_window_page


@dataclass(frozen=True)
class Asked:
    """By a person: these offsets of one sink, whatever was judged before."""

    sink: str
    ranges: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Reconciliation:
    control: ControlDatabase
    environment: Environment
    stream: Stream
    run: str

    def choose(self, asked: Asked | None = None) -> list[Window]:
        """One per sink in which something happened; again for the same run, the same."""
        self.control.migrate()
        if before := self.windows():
            return before
        tables = Places.of(self.stream, self.environment).sinks
        if asked is not None:
            return [choose_by_hand(self.control, self.stream.name, asked.sink, tables[asked.sink], self.run, asked.ranges)]
        chosen = [choose_window(self.control, self.stream.name, sink, table, self.run) for sink, table in tables.items()]
        return [window for window in chosen if window is not None]

    def windows(self) -> list[Window]:
        with self.control.transaction() as cursor:
            return windows_of_run(cursor, self.stream.name, self.run)

    def audit(self) -> list[Window]:
        tables = Places.of(self.stream, self.environment).sinks
        for window in self.windows():
            audited = audit_window(self.control, window, tables[window.sink])
            with self.control.transaction() as cursor:
                write_audited(cursor, window.id, audited)
        return self.windows()

    def judge(self) -> list[Window]:
        """And writes the pages, so that a failed run has them too."""
        from include.reconciliation.judge import judge_window  # takes seconds to import

        for window in self.windows():
            judge_window(self.control, self.stream, window, self.folder)
        self._write_pages()
        return self.windows()

    def publish(self) -> list[CompleteThrough]:
        with self.control.transaction() as cursor:
            found = [complete_through(cursor, self.stream.name, sink) for sink in self.stream.spec.sinks]
        return [one for one in found if one is not None]

    @property
    def folder(self) -> Path:
        """Below the deployment's: pages and data docs of this stream."""
        return self.environment.home_path("reconciliation", self.stream.name)

    def _write_pages(self) -> None:
        windows = self.windows()
        for window in windows:
            write_window_page(self.folder, self.stream, window)
        for day in sorted({f"{window.chosen_at:%Y-%m-%d}" for window in windows}):
            with self.control.transaction() as cursor:
                of_day = windows_of_day(cursor, self.stream.name, day)
            write_day_page(self.folder, self.stream, day, of_day)
