"""The demo from its beginning to its end: what happens, in which order, and why it matters, on one screen.

1. a stack of its own; 2. orders whose fate is known; 3. Airflow starts three streams; 4. one driver is killed in the middle of a
batch, 5. another right after a commit; 6. reconciliation proves the books; 7. a stranger counts; 8. the stack is stopped.
"""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict
from typing import Any

import yaml

from include.control.database import ControlDatabase
from include.control.windows import Window, windows_of_run
from include.local_stack.airflow import RunFailed
from include.local_stack.demo.count import Count, count, count_in_database, count_totals
from include.local_stack.demo.driver import DemoDriver, Kill, wait_for_successors
from include.local_stack.demo.eyes import Eye, LakeEye, WarehouseEye
from include.local_stack.demo.records import TOPIC, Sender, Sent
from include.local_stack.demo.sabotage import SABOTAGE
from include.local_stack.home import PROJECT, VAR, StackHome
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


def run_demo(sabotage: str | None = None) -> bool:
    """True only if reconciliation and the stranger's count both say that every record is accounted for once."""
    stack = Stack(StackHome(VAR / "demo"))
    stack.down()
    _begin_anew(stack.home)
    say("1. A stack of its own, in var/demo: PostgreSQL, Kafka, Airflow")
    try:
        stack.up()
        report = _play(stack, sabotage)
    finally:
        say("\n8. The stack is stopped; its data stays in var/demo")
        with held_back():
            stack.down()
    (stack.home.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    _conclude(report)
    return bool(report["balanced"])


def _begin_anew(home: StackHome) -> None:
    """The last demo is moved aside, the one before it is gone."""
    before = home.folder.with_name("demo.before")
    if home.folder.exists():
        shutil.rmtree(before, ignore_errors=True)
        home.folder.rename(before)
    shutil.copytree(PROJECT / "config" / "schemas", home.config / "schemas")
    (home.config / "streams").mkdir()
    for stream in STREAMS:
        content = yaml.safe_load((PROJECT / "config" / "streams" / f"{stream}.yaml").read_text())
        content["source"]["max_records_per_batch"] = RECORDS_PER_BATCH
        content["decode"]["max_value_bytes"] = "10 kB"
        content["trigger"] = "1 second"
        (home.config / "streams" / f"{stream}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _play(stack: Stack, sabotage: str | None) -> dict[str, Any]:
    say(f"\n2. {RECORDS:,} orders go to Kafka, a third of them now, the others while drivers die")
    say("   1 in 100 is broken, in eight different ways; 1 in 50 is to be filtered")
    sender = Sender(stack.kafka.connection.address)
    _send_a_third(sender)
    say("\n3. Airflow sees that three streams should run, and starts their drivers: processes of their own, nobody's children")
    say("   orders_raw: every order, in Delta; orders_to_postgres: the same in PostgreSQL; user_metrics: totals per user, there")
    _look_now(stack)
    drivers = _drivers(stack)
    with step("waiting for the first batches"):
        for driver in drivers.values():
            driver.wait_until_at_work(PATIENCE_SECONDS)
    kills, recoveries = _kill_twice(drivers[LAKE], drivers[TOTALS], sender)
    sent = sender.sent
    with step("waiting until everything is delivered"):
        for driver in drivers.values():
            driver.wait_until_delivered(sent.ends, PATIENCE_SECONDS)
    if sabotage:
        say(f"\n   SABOTAGE: {sabotage}")
        SABOTAGE[sabotage](stack.home.lake / STREAMS[LAKE])
    windows = _reconcile(stack)
    return _report(stack, sent, windows, kills, recoveries)


def _drivers(stack: Stack) -> dict[str, DemoDriver]:
    lake = LakeEye(stack.home.lake / STREAMS[LAKE] / "_delta_log")
    eyes: dict[str, Eye] = {LAKE: lake, **{stream: WarehouseEye(stack, STREAMS[stream]) for stream in (ROWS, TOTALS)}}
    return {stream: DemoDriver(stack, stream, eye) for stream, eye in eyes.items()}


def _look_now(stack: Stack) -> None:
    """Supervision comes by every minute, and stays for it: a run that is asked for saves the newcomer the first wait."""
    with suppress(NotHealthy):
        run: dict[str, Any] = {"dag_run_id": "demo-first-look", "logical_date": None, "conf": {}}
        stack.api_server.ask("/api/v2/dags/supervise_streams/dagRuns", stack.api_server.log_in(), run)


def _send_a_third(sender: Sender) -> None:
    with step(f"sending to topic {TOPIC}, keeping what the broker acknowledges"):
        sender.send(RECORDS // 3)


def _kill_twice(lake: DemoDriver, totals: DemoDriver, sender: Sender) -> tuple[list[Kill], dict[str, float]]:
    say(f"\n4. SIGKILL in the middle of a batch of {lake.stream}: planned, half written, never to be committed")
    _send_a_third(sender)
    first = lake.kill_in_the_middle_of_a_batch()
    say(f"  killed pid {first.pid} in batch {first.batch}: {first.proof}")
    say(f"\n5. SIGKILL right after a commit of {totals.stream}, which Spark does not know of: its sums would be added twice")
    _send_a_third(sender)
    second = totals.kill_after_a_commit()
    say(f"  killed pid {second.pid} after batch {second.batch}: {second.proof}")
    with step("Airflow notices, and new generations commit"):
        recoveries = wait_for_successors([lake, totals], PATIENCE_SECONDS)
    return [first, second], recoveries


def _reconcile(stack: Stack) -> list[Window]:
    say("\n6. Reconciliation: Kafka is read and made into rows again, and Great Expectations judges the numbers")
    with step("DAGs " + ", ".join(f"reconcile_{stream}" for stream in STREAMS)), ThreadPoolExecutor(len(STREAMS)) as threads:
        list(threads.map(lambda stream: _judge(stack, stream), STREAMS))
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        windows = [window for stream in STREAMS for window in windows_of_run(cursor, stream, RUN)]
    for window in windows:
        say(f"  window {window.id} of {window.stream}.{window.sink}: {window.verdict or 'not judged'}. {window.told or ''}")
    return windows


def _judge(stack: Stack, stream: str) -> None:
    with suppress(RunFailed):  # what it found is told by its window
        stack.api_server.run_dag(f"reconcile_{stream}", RUN, {}, PATIENCE_SECONDS)


def _report(stack: Stack, sent: Sent, windows: list[Window], kills: list[Kill], recoveries: dict[str, float]) -> dict[str, Any]:
    say("\n7. Counted by code that shares nothing with the streams: what the broker acknowledged against what the tables hold")
    counted = _count(stack, sent)
    say(f"  {'':<20}{'produced':>10}{'delivered':>11}{'quarantined':>13}{'filtered':>10}{'twice':>7}{'lost':>6}")
    for stream, one in counted.items():
        say(
            f"  {stream:<20}{one.produced:>10,}{one.delivered:>11,}{one.quarantined:>13,}{one.filtered:>10,}"
            f"{one.delivered_twice:>7,}{one.lost:>6,}"
        )
        for sentence in one.named:
            say(f"    {sentence}")
    passed = {window.stream for window in windows if window.verdict == "passed"}
    streams = [
        {"stream": stream, **_numbers(one), "recovery_seconds": round(recoveries[stream], 1) if stream in recoveries else None}
        for stream, one in counted.items()
    ]
    balanced = all(one.is_balanced for one in counted.values()) and passed == set(STREAMS)
    return {"balanced": balanced, "streams": streams, "kills": [asdict(kill) for kill in kills]}


def _count(stack: Stack, sent: Sent) -> dict[str, Count]:
    kept = {stream: stack.home.lake / "quarantine" / stream for stream in STREAMS}
    with closing(stack.postgres.connect(WAREHOUSE)) as warehouse:
        return {
            LAKE: count(sent, stack.home.lake / STREAMS[LAKE], kept[LAKE]),
            ROWS: count_in_database(sent, warehouse, STREAMS[ROWS], kept[ROWS]),
            TOTALS: count_totals(sent, warehouse, STREAMS[TOTALS], kept[TOTALS]),
        }


def _numbers(counted: Count) -> dict[str, int]:
    return {name: value for name, value in asdict(counted).items() if name != "named"}


def _conclude(report: dict[str, Any]) -> None:
    if report["balanced"]:
        seconds = max(stream["recovery_seconds"] or 0 for stream in report["streams"])
        say(f"\nEvery record exactly once, though two drivers were killed; back within {seconds:.0f} s. var/demo/report.json")
    else:
        say("\nTHE BOOKS DO NOT BALANCE: see what is named above, and var/demo/report.json")
