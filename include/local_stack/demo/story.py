"""The demo from its beginning to its end: what happens, in which order, and why it matters, on one screen.

1. a stack of its own; 2. orders whose fate is known; 3. Airflow starts the stream; 4. its driver is killed in the middle of a
batch, 5. and again right after a commit; 6. reconciliation proves the books; 7. a stranger counts; 8. the stack is stopped.
"""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import yaml

from include.control.database import ControlDatabase
from include.control.windows import Window, windows_of_run
from include.local_stack.airflow import RunFailed
from include.local_stack.demo.count import Count, count
from include.local_stack.demo.driver import DemoDriver, Kill
from include.local_stack.demo.records import TOPIC, Sent, send
from include.local_stack.demo.sabotage import SABOTAGE
from include.local_stack.home import PROJECT, VAR, StackHome
from include.local_stack.part import NotHealthy
from include.local_stack.progress import say, step
from include.local_stack.stack import Stack
from include.processes.interruptions import held_back

STREAM, TABLE = "orders_raw", "orders"
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
    content = yaml.safe_load((PROJECT / "config" / "streams" / f"{STREAM}.yaml").read_text())
    content["source"]["max_records_per_batch"] = RECORDS_PER_BATCH
    content["decode"]["max_value_bytes"] = "10 kB"
    content["trigger"] = "1 second"
    (home.config / "streams").mkdir()
    (home.config / "streams" / f"{STREAM}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _play(stack: Stack, sabotage: str | None) -> dict[str, Any]:
    say(f"\n2. {RECORDS:,} orders go to Kafka; 1 in 100 is broken, in eight different ways, 1 in 50 is to be filtered")
    with step(f"sending to topic {TOPIC}, keeping what the broker acknowledges"):
        sent = send(stack.kafka.connection.address, RECORDS)
    say("\n3. Airflow sees that the stream should run, and starts its driver: a process of its own, nobody's child")
    _look_now(stack)
    driver = DemoDriver(stack, STREAM, TABLE)
    with step("waiting for the first batches"):
        driver.wait_until_at_work(PATIENCE_SECONDS)
    kills, recoveries = _kill_twice(driver)
    with step("waiting until everything is delivered"):
        driver.wait_until_delivered(sent.ends, PATIENCE_SECONDS)
    if sabotage:
        say(f"\n   SABOTAGE: {sabotage}")
        SABOTAGE[sabotage](stack.home.lake / TABLE)
    windows = _reconcile(stack)
    return _report(stack, sent, windows, kills, recoveries)


def _look_now(stack: Stack) -> None:
    """Supervision comes by every minute, and stays for it: a run that is asked for saves the newcomer the first wait."""
    with suppress(NotHealthy):
        run: dict[str, Any] = {"dag_run_id": "demo-first-look", "logical_date": None, "conf": {}}
        stack.api_server.ask("/api/v2/dags/supervise_streams/dagRuns", stack.api_server.log_in(), run)


def _kill_twice(driver: DemoDriver) -> tuple[list[Kill], list[float]]:
    say("\n4. SIGKILL in the middle of a batch: it is planned, half of it is written, nobody will ever commit it")
    first = driver.kill_in_the_middle_of_a_batch()
    say(f"  killed pid {first.pid} in batch {first.batch}: {first.proof}")
    with step("Airflow notices, and a new generation commits"):
        recoveries = [driver.wait_for_successor(PATIENCE_SECONDS)]
    say("\n5. SIGKILL right after the table's commit, before Spark knows of it: without a tidemark it would be written twice")
    second = driver.kill_after_a_commit()
    say(f"  killed pid {second.pid} after batch {second.batch}: {second.proof}")
    with step("Airflow notices, and a new generation commits"):
        recoveries.append(driver.wait_for_successor(PATIENCE_SECONDS))
    return [first, second], recoveries


def _reconcile(stack: Stack) -> list[Window]:
    say("\n6. Reconciliation: Kafka is read and made into rows again, and Great Expectations judges the numbers")
    with step(f"DAG reconcile_{STREAM}"), suppress(RunFailed):  # what it found is told below
        stack.api_server.run_dag(f"reconcile_{STREAM}", RUN, {}, PATIENCE_SECONDS)
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        windows = windows_of_run(cursor, STREAM, RUN)
    for window in windows:
        say(f"  window {window.id} of {STREAM}.{window.sink}: {window.verdict or 'not judged'}. {window.told or ''}")
    return windows


def _report(stack: Stack, sent: Sent, windows: list[Window], kills: list[Kill], recoveries: list[float]) -> dict[str, Any]:
    say("\n7. Counted by code that shares nothing with the stream: what the broker acknowledged against what the files hold")
    counted = count(sent, stack.home.lake / TABLE, stack.home.lake / "quarantine" / STREAM)
    say(f"  {'produced':>10}{'delivered':>11}{'quarantined':>13}{'filtered':>10}{'twice':>7}{'lost':>6}")
    say(
        f"  {counted.produced:>10,}{counted.delivered:>11,}{counted.quarantined:>13,}{counted.filtered:>10,}"
        f"{counted.delivered_twice:>7,}{counted.lost:>6,}"
    )
    for sentence in counted.named:
        say(f"  {sentence}")
    passed = bool(windows) and all(window.verdict == "passed" for window in windows)
    stream = {"stream": STREAM, **_numbers(counted), "recovery_seconds": round(max(recoveries), 1)}
    return {"balanced": counted.is_balanced and passed, "streams": [stream], "kills": [asdict(kill) for kill in kills]}


def _numbers(counted: Count) -> dict[str, int]:
    return {name: value for name, value in asdict(counted).items() if name != "named"}


def _conclude(report: dict[str, Any]) -> None:
    if report["balanced"]:
        seconds = report["streams"][0]["recovery_seconds"]
        say(f"\nEvery record exactly once, though its driver was killed twice; back within {seconds:.0f} s. var/demo/report.json")
    else:
        say("\nTHE BOOKS DO NOT BALANCE: see what is named above, and var/demo/report.json")
