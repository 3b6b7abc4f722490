"""The demo from its beginning to its end: what happens, in which order, and why it matters, on one screen.

1. a stack of its own; 2. orders whose fate is known; 3. Airflow starts two streams; 4. a driver is killed in the middle of a
batch, 5. and again between the commits of its two sinks; 6. more streams are added; 7. a stateful one is killed and loses its
state; 8. reconciliation proves the books; 9. a stranger counts; 10. the stack is stopped.
"""

import json
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import yaml

from include.contract.catalog import load_streams
from include.control.database import ControlDatabase
from include.control.windows import Window, windows_of_run
from include.local_stack.airflow import RunFailed
from include.local_stack.demo.driver import DemoDriver, Kill
from include.local_stack.demo.parts_played import (
    ADDED,
    FIRST,
    KILLED,
    OF_ORDERS,
    STATEFUL,
    WINDOWS,
    lake_table,
    played_sinks,
)
from include.local_stack.demo.payments import PaymentSender
from include.local_stack.demo.records import TOPIC, Sender
from include.local_stack.demo.report import conclude, make_report
from include.local_stack.demo.sabotage import SABOTAGE
from include.local_stack.home import PROJECT, VAR, StackHome
from include.local_stack.java import FOR_SHORT_LIVES
from include.local_stack.part import NotHealthy
from include.local_stack.progress import say, step
from include.local_stack.stack import Stack
from include.processes.interruptions import held_back

RECORDS = 204_000
PAYMENTS = 40_000  # half of them before the state is taken away; copies and late ones come on top
MADE_AGAIN = "made again from Kafka"  # what a driver says of a state that was lost
RECORDS_PER_BATCH = 250_000  # a driver that comes back, or comes late, delivers all that there is at once
PATIENCE_SECONDS = 240
PORTION = 5_000  # records of a batch in which it is killed between two commits, or, if it was too fast, of the next one
RUN = "demo"


def run_demo(sabotage: str | None = None) -> bool:
    """True only if reconciliation and the stranger's count both say that every record is accounted for once."""
    os.environ.setdefault("JAVA_TOOL_OPTIONS", FOR_SHORT_LIVES)
    stack = Stack(StackHome(VAR / "demo"))
    stack.down()
    _begin_anew(stack.home)
    say("1. A stack of its own, in var/demo: PostgreSQL, Kafka, Airflow")
    try:
        stack.up()
        report = _play(stack, sabotage)
    finally:
        say("\n10. The stack is stopped; its data stays in var/demo")
        with held_back():
            stack.down()
    (stack.home.folder / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    conclude(report)
    return bool(report["balanced"])


def _begin_anew(home: StackHome) -> None:
    """The last demo is moved aside, the one before it is gone."""
    before = home.folder.with_name("demo.before")
    if home.folder.exists():
        shutil.rmtree(before, ignore_errors=True)
        home.folder.rename(before)
    shutil.copytree(PROJECT / "config" / "schemas", home.config / "schemas")
    (home.config / "streams").mkdir()
    _add_files(home, *FIRST)


def _add_files(home: StackHome, *streams: str) -> None:
    """As they are shipped, but quicker and more wary. Whoever reads the folder meanwhile sees a whole file, or none."""
    for stream in streams:
        content = yaml.safe_load((PROJECT / "config" / "streams" / f"{stream}.yaml").read_text())
        content["source"]["max_records_per_batch"] = RECORDS_PER_BATCH
        content["decode"]["max_value_bytes"] = "10 kB"
        content["trigger"] = "1 second"
        unfinished = home.config / "streams" / f".{stream}.yaml"
        unfinished.write_text(yaml.safe_dump(content, sort_keys=False))
        unfinished.rename(unfinished.with_name(f"{stream}.yaml"))


def _play(stack: Stack, sabotage: str | None) -> dict[str, Any]:
    say(f"\n2. {RECORDS:,} orders go to Kafka, a quarter of them now, the others while a driver dies")
    say("   1 in 100 is broken, in eight different ways; 1 in 50 is to be filtered")
    sender, payments = Sender(stack.kafka.connection.address), PaymentSender(stack.kafka.connection.address)
    _send(sender, RECORDS // 4)
    say("\n3. Airflow sees what should run, and starts a driver for each: a process of its own, nobody's child")
    _tell_of(stack, *FIRST)
    _look_now(stack)
    sinks = played_sinks(stack, sender.sent, payments.sent)
    eyes = {sink.stream: [one.eye for one in sinks if one.stream == sink.stream] for sink in sinks}
    drivers = {name: DemoDriver(stack, name, seen) for name, seen in eyes.items()}
    kills, recovery_seconds = _kill_twice(drivers[KILLED], sender)
    say("\n6. Four more files, four more streams: nothing else is to be done, Airflow starts what they declare")
    payments.send_first(PAYMENTS // 2)
    _add_files(stack.home, *STATEFUL, *ADDED)
    _tell_of(stack, *STATEFUL, *ADDED)
    _wait_until_delivered(KILLED, [drivers[KILLED]], sender.sent.ends)
    if sabotage:
        say(f"\n   SABOTAGE: {sabotage}")
        SABOTAGE[sabotage](lake_table(stack))
    kills.append(_take_the_state(stack, drivers, payments))
    back = drivers[WINDOWS].watch_for_successor(PATIENCE_SECONDS)
    windows = _reconcile(stack)
    recoveries = {KILLED: recovery_seconds, WINDOWS: _wait_for_state(drivers[WINDOWS], back)}
    _wait_until_delivered("every stream of payments", [drivers[name] for name in STATEFUL], payments.sent.ends)
    _wait_until_delivered("every other stream", [drivers[name] for name in OF_ORDERS], sender.sent.ends)
    say("\n9. Counted by code that shares nothing with the streams: what the broker acknowledged against what the tables hold")
    return make_report([(sink, sink.count()) for sink in sinks], windows, (KILLED,), kills, recoveries)


def _tell_of(stack: Stack, *names: str) -> None:
    streams = load_streams(stack.home.config)
    for name in names:
        say(f"   {name}: {streams[name].spec.description}")


def _look_now(stack: Stack) -> None:
    """Supervision comes by every minute, and stays for it: a run that is asked for saves the newcomer the first wait."""
    with suppress(NotHealthy):
        run: dict[str, Any] = {"dag_run_id": "demo-first-look", "logical_date": None, "conf": {}}
        stack.api_server.ask("/api/v2/dags/supervise_streams/dagRuns", stack.api_server.log_in(), run)


def _send(sender: Sender, records: int) -> None:
    with step(f"sending to topic {TOPIC}, keeping what the broker acknowledges"):
        sender.send(records)


def _kill_twice(driver: DemoDriver, sender: Sender) -> tuple[list[Kill], float]:
    """And how long the slower recovery took."""
    say(f"\n4. SIGKILL in the middle of the first batch of {driver.stream}: planned, half written, never to be committed")
    with step("waiting until it is under way"):
        first = driver.kill_in_the_middle_of_a_batch(PATIENCE_SECONDS)
    say(f"  killed pid {first.pid} in batch {first.batch}: {first.proof}")
    _send(sender, RECORDS // 4)
    recoveries = [_wait_for(driver)]
    say("\n5. SIGKILL between its two sinks: one has the batch, the other has not, and Spark would write all of it again")
    second = driver.kill_between_two_sinks(lambda: sender.send(PORTION))
    say(f"  killed pid {second.pid} in batch {second.batch}: {second.proof}")
    _send(sender, max(0, RECORDS - sender.sent.total))
    recoveries.append(_wait_for(driver))
    return [first, second], max(recoveries)


def _wait_for(driver: DemoDriver) -> float:
    with step("Airflow notices, and a new generation commits"):
        return driver.wait_for_successor(PATIENCE_SECONDS)


def _take_the_state(stack: Stack, drivers: dict[str, DemoDriver], payments: PaymentSender) -> Kill:
    """The rest is sent when both streams know what is late."""
    say(f"\n7. SIGKILL to {WINDOWS}, and all that Spark kept of its state is taken away: which payments it knows, open windows")
    with step("waiting until both streams of payments have a watermark"):
        for name in STATEFUL:
            drivers[name].wait_until_delivered(payments.sent.ends, PATIENCE_SECONDS)
            drivers[name].wait_until_it_has_a_watermark(PATIENCE_SECONDS)
    kill = drivers[WINDOWS].kill_and_take_its_state(stack.home.folder / "taken_away" / WINDOWS)
    say(f"  killed pid {kill.pid} after batch {kill.batch}: {kill.proof}")
    again = payments.send_rest(PAYMENTS // 2)
    say(f"  {again:,} payments from before come once more; {payments.sent.late:,} come an hour late; the windows go on")
    return kill


def _wait_for_state(driver: DemoDriver, back: "Future[float]") -> float:
    with step(f"waiting until a new generation of {driver.stream} commits"):
        seconds = back.result()
    say(f"  {driver.said(MADE_AGAIN) or f'{driver.stream}: its log does not say that the state was made again'}")
    say(f"  it committed {seconds:.1f} s after the kill")
    return seconds


def _wait_until_delivered(who: str, drivers: Iterable[DemoDriver], ends: dict[int, int]) -> None:
    with step(f"waiting until {who} has delivered everything"):
        for driver in drivers:
            driver.wait_until_delivered(ends, PATIENCE_SECONDS)


def _reconcile(stack: Stack) -> list[Window]:
    say(f"\n8. Reconciliation of {KILLED}: Kafka is read and made into rows again, and Great Expectations judges the numbers")
    with step(f"DAG reconcile_{KILLED}"), suppress(RunFailed):  # what it found is told by its windows
        stack.api_server.run_dag(f"reconcile_{KILLED}", RUN, {}, PATIENCE_SECONDS)
    with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
        windows = windows_of_run(cursor, KILLED, RUN)
    for window in windows:
        say(f"  window {window.id} of {window.stream}.{window.sink}: {window.verdict or 'not judged'}. {window.told or ''}")
    return windows
