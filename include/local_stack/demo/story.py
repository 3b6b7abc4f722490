"""The demo from its beginning to its end: what happens, in which order, and why it matters, on one screen.

1. a stack of its own; 2. orders whose fate is known; 3. Airflow starts the stream; 4. its driver is killed in the middle of a
batch, 5. and again right after a commit; 6. reconciliation proves the books; 7. a stranger counts; 8. the stack is stopped.
With all streams, two more write PostgreSQL beside it, and the second kill is of the one that adds totals up.
"""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict
from typing import Any

import yaml

from include.contract.catalog import load_streams
from include.control.database import ControlDatabase
from include.control.windows import Window, windows_of_run
from include.local_stack.airflow import RunFailed
from include.local_stack.demo.count import Count, count, count_in_database, count_totals
from include.local_stack.demo.driver import DemoDriver, Kill
from include.local_stack.demo.eyes import Eye, LakeEye, WarehouseEye
from include.local_stack.demo.records import TOPIC, Sender, Sent
from include.local_stack.demo.sabotage import SABOTAGE
from include.local_stack.home import PROJECT, VAR, StackHome
from include.local_stack.java import FOR_SHORT_LIVES
from include.local_stack.part import NotHealthy
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.progress import say, step
from include.local_stack.stack import Stack
from include.processes.interruptions import held_back

LAKE, ROWS, TOTALS = "orders_raw", "orders_to_postgres", "user_metrics"
STREAMS = {LAKE: "orders", ROWS: "orders", TOTALS: "user_metrics"}  # and the tables they write
RECORDS = 204_000
RECORDS_PER_BATCH = 30_000  # small batches, so that there is one to be killed in
PATIENCE_SECONDS = 240
RUN = "demo"


def run_demo(sabotage: str | None = None, *, with_all: bool = False) -> bool:
    """True only if reconciliation and the stranger's count both say that every record is accounted for once."""
    os.environ.setdefault("JAVA_TOOL_OPTIONS", FOR_SHORT_LIVES)
    stack = Stack(StackHome(VAR / "demo"))
    stack.down()
    streams = list(STREAMS) if with_all else [LAKE]
    _begin_anew(stack.home, streams)
    say("1. A stack of its own, in var/demo: PostgreSQL, Kafka, Airflow")
    try:
        stack.up()
        report = _play(stack, streams, sabotage)
    finally:
        say("\n8. The stack is stopped; its data stays in var/demo")
        with held_back():
            stack.down()
    (stack.home.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    _conclude(report)
    return bool(report["balanced"])


def _begin_anew(home: StackHome, streams: list[str]) -> None:
    """The last demo is moved aside, the one before it is gone."""
    before = home.folder.with_name("demo.before")
    if home.folder.exists():
        shutil.rmtree(before, ignore_errors=True)
        home.folder.rename(before)
    shutil.copytree(PROJECT / "config" / "schemas", home.config / "schemas")
    (home.config / "streams").mkdir()
    for stream in streams:
        content = yaml.safe_load((PROJECT / "config" / "streams" / f"{stream}.yaml").read_text())
        content["source"]["max_records_per_batch"] = RECORDS_PER_BATCH
        content["decode"]["max_value_bytes"] = "10 kB"
        content["trigger"] = "1 second"
        (home.config / "streams" / f"{stream}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _play(stack: Stack, streams: list[str], sabotage: str | None) -> dict[str, Any]:
    say(f"\n2. {RECORDS:,} orders go to Kafka, a quarter of them now, the others while the driver dies")
    say("   1 in 100 is broken, in eight different ways; 1 in 50 is to be filtered")
    sender = Sender(stack.kafka.connection.address)
    _send_a_quarter(sender)
    say("\n3. Airflow sees what should run, and starts a driver for it: a process of its own, nobody's child")
    for stream in streams:
        say(f"   {stream}: {load_streams(stack.home.config)[stream].spec.description}")
    _look_now(stack)
    drivers = _drivers(stack, streams)
    with step("waiting for the first batches"):
        for driver in drivers.values():
            driver.wait_until_at_work(PATIENCE_SECONDS)
    kills, recoveries = _kill_twice(drivers[LAKE], drivers.get(TOTALS, drivers[LAKE]), sender)
    sent = sender.sent
    with step("waiting until everything is delivered"):
        for driver in drivers.values():
            driver.wait_until_delivered(sent.ends, PATIENCE_SECONDS)
    if sabotage:
        say(f"\n   SABOTAGE: {sabotage}")
        SABOTAGE[sabotage](stack.home.lake / STREAMS[LAKE])
    windows = _reconcile(stack, streams)
    return _report(_count(stack, streams, sent), windows, kills, recoveries)


def _drivers(stack: Stack, streams: list[str]) -> dict[str, DemoDriver]:
    lake = LakeEye(stack.home.lake / STREAMS[LAKE] / "_delta_log")
    eyes: dict[str, Eye] = {LAKE: lake, **{stream: WarehouseEye(stack, STREAMS[stream]) for stream in (ROWS, TOTALS)}}
    return {stream: DemoDriver(stack, stream, eyes[stream]) for stream in streams}


def _look_now(stack: Stack) -> None:
    """Supervision comes by every minute, and stays for it: a run that is asked for saves the newcomer the first wait."""
    with suppress(NotHealthy):
        run: dict[str, Any] = {"dag_run_id": "demo-first-look", "logical_date": None, "conf": {}}
        stack.api_server.ask("/api/v2/dags/supervise_streams/dagRuns", stack.api_server.log_in(), run)


def _send_a_quarter(sender: Sender) -> None:
    with step(f"sending to topic {TOPIC}, keeping what the broker acknowledges"):
        sender.send(RECORDS // 4)


def _kill_twice(one: DemoDriver, other: DemoDriver, sender: Sender) -> tuple[list[Kill], list[tuple[str, float]]]:
    say(f"\n4. SIGKILL in the middle of a batch of {one.stream}: planned, half written, never to be committed")
    _send_a_quarter(sender)
    first = one.kill_in_the_middle_of_a_batch()
    say(f"  killed pid {first.pid} in batch {first.batch}: {first.proof}")
    recoveries = _wait_for(one)
    say(f"\n5. SIGKILL right after a commit of {other.stream}, of which Spark does not know: it would all be written twice")
    _send_a_quarter(sender)
    second = other.kill_after_a_commit()
    say(f"  killed pid {second.pid} after batch {second.batch}: {second.proof}")
    _send_a_quarter(sender)
    return [first, second], [*recoveries, *_wait_for(other)]


def _wait_for(driver: DemoDriver) -> list[tuple[str, float]]:
    with step("Airflow notices, and a new generation commits"):
        return [(driver.stream, driver.wait_for_successor(PATIENCE_SECONDS))]


def _reconcile(stack: Stack, streams: list[str]) -> list[Window]:
    say("\n6. Reconciliation: Kafka is read and made into rows again, and Great Expectations judges the numbers")
    with step("DAG " + ", ".join(f"reconcile_{stream}" for stream in streams)), ThreadPoolExecutor() as threads:
        list(threads.map(lambda stream: _judge(stack, stream), streams))
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        windows = [window for stream in streams for window in windows_of_run(cursor, stream, RUN)]
    for window in windows:
        say(f"  window {window.id} of {window.stream}.{window.sink}: {window.verdict or 'not judged'}. {window.told or ''}")
    return windows


def _judge(stack: Stack, stream: str) -> None:
    with suppress(RunFailed):  # what it found is told by its window
        stack.api_server.run_dag(f"reconcile_{stream}", RUN, {}, PATIENCE_SECONDS)


def _report(
    counted: dict[str, Count], windows: list[Window], kills: list[Kill], recoveries: list[tuple[str, float]]
) -> dict[str, Any]:
    say("\n7. Counted by code that shares nothing with the streams: what the broker acknowledged against what the tables hold")
    say(f"  {'':<20}{'produced':>10}{'delivered':>11}{'quarantined':>13}{'filtered':>10}{'twice':>7}{'lost':>6}")
    for stream, one in counted.items():
        numbers = (one.delivered, one.quarantined, one.filtered, one.delivered_twice, one.lost)
        widths = (11, 13, 10, 7, 6)
        cells = "".join(f"{number:>{width},}" for number, width in zip(numbers, widths, strict=True))
        say(f"  {stream:<20}{one.produced:>10,}{cells}")
        for sentence in one.named:
            say(f"    {sentence}")
    passed = {window.stream for window in windows if window.verdict == "passed"}
    streams = [{"stream": stream, **_numbers(one), **_recovery(stream, recoveries)} for stream, one in counted.items()]
    balanced = all(one.is_balanced for one in counted.values()) and passed == set(counted)
    return {"balanced": balanced, "streams": streams, "kills": [asdict(kill) for kill in kills]}


def _recovery(stream: str, recoveries: list[tuple[str, float]]) -> dict[str, float | None]:
    """The longest; none for a stream that was not killed."""
    seconds = [round(taken, 1) for killed, taken in recoveries if killed == stream]
    return {"recovery_seconds": max(seconds, default=None)}


def _count(stack: Stack, streams: list[str], sent: Sent) -> dict[str, Count]:
    kept = {stream: stack.home.lake / "quarantine" / stream for stream in streams}
    with closing(stack.postgres.connect(WAREHOUSE)) as warehouse:
        ways = {
            LAKE: lambda: count(sent, stack.home.lake / STREAMS[LAKE], kept[LAKE]),
            ROWS: lambda: count_in_database(sent, warehouse, STREAMS[ROWS], kept[ROWS]),
            TOTALS: lambda: count_totals(sent, warehouse, STREAMS[TOTALS], kept[TOTALS]),
        }
        return {stream: ways[stream]() for stream in streams}


def _numbers(counted: Count) -> dict[str, int]:
    return {name: value for name, value in asdict(counted).items() if name != "named"}


def _conclude(report: dict[str, Any]) -> None:
    if report["balanced"]:
        seconds = max(stream["recovery_seconds"] or 0 for stream in report["streams"])
        say(f"\nEvery record exactly once, though drivers were killed twice; back within {seconds:.0f} s. var/demo/report.json")
    else:
        say("\nTHE BOOKS DO NOT BALANCE: see what is named above, and var/demo/report.json")
