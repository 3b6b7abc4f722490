"""What the tasks of `reconcile_<stream>` do. Imported when a task runs, never when a DAG file is parsed."""

from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from include.airflow_parts.airflow_connections import make_known
from include.airflow_parts.complete_asset import complete_asset
from include.airflow_parts.conf_keys import refuse_unknown_keys
from include.contract.catalog import find_stream
from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.errors import TidemarkError
from include.control.database import ControlDatabase
from include.control.windows import Verdict, Window
from include.reconciliation.reconcile import Asked, Reconciliation
from include.reconciliation.report import day_page, window_page


class AskedIncompletely(TidemarkError):
    """By hand, but without all that it takes."""


class BooksDiffer(TidemarkError):
    """Kafka and a sink do not agree."""


def choose(stream: str, context: Any) -> bool:
    """False if there is nothing to judge: then the tasks after it are skipped."""
    refuse_unknown_keys(context)
    steps = _steps(stream, context)
    windows = steps.choose(_asked(stream, context["params"]))
    for window in windows:
        spans = ", ".join(f"{number}: {start:,} to {end:,}" for number, (start, end) in window.ranges.items()) or "no new offsets"
        print(
            f"window {window.id} of {stream}.{window.sink}: {spans}; commits {window.after_version + 1} to {window.up_to_version}"
        )
    if not windows:
        print("Nothing to judge: no sink has moved since its last window.")
    return bool(windows)


def audit(stream: str, context: Any) -> str:
    """What it finds is judged with the rest, so that one report tells all."""
    lines = []
    for window in _steps(stream, context).audit():
        findings = window.audited.findings if window.audited else ()
        lines += [f"window {window.id}: {finding}" for finding in findings] or [f"window {window.id}: the ledger is whole"]
    return _say("\n".join(lines))


def judge(stream: str, context: Any) -> list[Window]:
    windows = _steps(stream, context).judge()
    for window in windows:
        print(f"window {window.id} of {stream}.{window.sink}: {window.verdict}. {window.told}")
    return windows


def page_of_run(windows: list[Window]) -> str:
    """Of the window; of its day, if several sinks have one."""
    return window_page(windows[0].id) if len(windows) == 1 else day_page(f"{windows[0].chosen_at:%Y-%m-%d}")


def refuse_failed(stream: str, windows: list[Window], report: str) -> str:
    failed = [window for window in windows if window.verdict is Verdict.FAILED]
    if failed:
        raise BooksDiffer(
            " ".join(f"Window {window.id} of {stream}.{window.sink}: {window.told}" for window in failed),
            state="Nothing was changed; the stream goes on, and downstream is not told.",
            next_step=f"See {report}. When it is mended, trigger reconcile_{stream} with sink, from and to.",
        )
    return "; ".join(f"window {window.id}: {window.verdict}" for window in windows)


def publish(stream: str, sink: str, context: Any) -> str:
    """An event of the asset is made if this task succeeds."""
    steps = _steps(stream, context)
    verdicts = {window.sink: window.verdict for window in steps.windows()}
    complete = next((one for one in steps.publish() if one.sink == sink), None)
    if verdicts.get(sink) is not Verdict.PASSED or complete is None:
        raise AirflowSkipException(f"Nothing to tell: the window of {sink} is {verdicts.get(sink) or 'nothing to judge'}.")
    context["outlet_events"][complete_asset(stream, sink)].extra = complete.to_plain()
    until = f", {complete.event_time:%Y-%m-%d %H:%M:%S} UTC" if complete.event_time else ""
    return _say(f"{stream}.{sink} is complete through {_offsets(complete.to_plain()['offsets'])}{until}")


def announce(context: Any) -> list[dict[str, Any]]:
    events = [event.extra for found in context["triggering_asset_events"].values() for event in found]
    for told in events:
        _say(
            f"{told['stream']}.{told['sink']} is complete through {_offsets(told['offsets'])}, {told['event_time']} "
            f"({told['tier']}, window {told['window']}; not judged: {len(told['not_judged'])} windows)"
        )
    return events


def _steps(stream: str, context: Any) -> Reconciliation:
    environment, found = load_environment(), find_stream(stream)
    make_known({environment.control.connection, *found.spec.connections})
    control = ControlDatabase(read_connection(environment.control.connection))
    return Reconciliation(control, environment, found, context["run_id"])


def _asked(stream: str, params: Any) -> Asked | None:
    sink, starts, ends = params.get("sink"), params.get("from") or {}, params.get("to") or {}
    if not (sink or starts or ends):
        return None
    if not (sink and starts and set(starts) == set(ends) and all(int(starts[name]) < int(ends[name]) for name in starts)):
        raise AskedIncompletely(
            "By hand a window needs sink, from and to, with the same partitions in both and from below to.",
            state="Nothing was judged.",
            next_step=f'Trigger reconcile_{stream} with, for example, sink lake, from {{"0": 100}}, to {{"0": 200}}.',
        )
    return Asked(sink, {int(name): (int(starts[name]), int(ends[name])) for name in starts})


def _offsets(offsets: dict[str, int]) -> str:
    return ", ".join(f"{number}: {offset:,}" for number, offset in sorted(offsets.items(), key=lambda one: int(one[0])))


def _say(text: str) -> str:
    print(text, flush=True)
    return text
