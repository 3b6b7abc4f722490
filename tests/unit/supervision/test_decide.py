"""What supervision decides, as a table: what was seen, the state, the act."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from include.contract.exit_class import ExitClass
from include.control.desired import Desired, Pause
from include.control.drivers import Batch, DriverProcess, Ended, Launched
from include.processes.process_record import ProcessRecord
from include.supervision.decide import Act, decide
from include.supervision.observation import Driver, Lag, Limits, Observation
from include.supervision.states import State

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)
PAUSED = Pause("somebody", "maintenance", NOW)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def driver(
    *,
    alive: bool | None = True,
    generation: int | None = 7,
    adopted: bool = True,
    detached: bool = True,
    age: float = 3600,
    stop_asked: float | None = None,
    process: bool = True,
    seen: float = 1,
    launch: str = "living",
    state_reads: int = 0,
) -> Driver:
    runs = DriverProcess("here", ProcessRecord(4711, 1, "boot", 0), detached, ago(seen)) if process else None
    asked = None if stop_asked is None else ago(stop_asked)
    taken_at = None if generation is None else ago(age - 10)
    launched = Launched(launch, ago(age), runs, generation, taken_at, None, asked, state_reads)
    return Driver(launched, alive, adopted and generation is not None)


def end(exit_class: ExitClass, seconds_ago: float, *, lived: float = 20, generation: int = 6) -> Ended:
    ended = ago(seconds_ago)
    return Ended(f"l{seconds_ago}", generation, exit_class, "It ended.", "Do this.", ended - timedelta(seconds=lived), ended)


def batch(seconds_ago: float, lag: int, *, read: int = 1000, took: float = 2, generation: int = 7, number: int = 1) -> Batch:
    return Batch(generation, number, read, took, lag, ago(seconds_ago))


def seen(*drivers: Driver, wanted: bool = True, lag: int | None = 0, behind: float = 1, **more: Any) -> Observation:
    there = None if lag is None else Lag({0: 5}, lag, ago(behind) if lag else None)
    plain = Observation(
        stream="orders_raw",
        now=NOW,
        desired=Desired(wanted, "somebody", "because", LONG_AGO),
        pause=None,
        limits=Limits(timedelta(minutes=5), 1000),
        drivers=drivers,
        ends=(),
        batches=(),
        newest_generation=7,
        lag=there,
        outage=None,
    )
    return replace(plain, **more)


@dataclass(frozen=True)
class Case:
    seen: Observation
    state: State
    act: Act | None = None
    says: str = ""
    exit_class: ExitClass | None = None


KILLED = ExitClass.KILLED
POISON = ExitClass.POISON
OUTAGE = ExitClass.INFRASTRUCTURE
OUT_OF_MEMORY = ExitClass.OUT_OF_MEMORY
STATEFUL = Limits(timedelta(minutes=5), 1000, is_stateful=True)
GIVEN_UP = Desired(False, "supervision", "another deployment writes here", ago(60))
CASES = {
    # no driver, and none should be
    "given up to a stranger": Case(seen(desired=GIVEN_UP, ends=(end(ExitClass.FENCED, 61),)), State.FENCED, says="another deployment"),
    "given up for another reason": Case(seen(desired=GIVEN_UP, ends=(end(ExitClass.POISON, 61),)), State.STOPPED),
    "stopped by a person after a stranger": Case(seen(wanted=False, ends=(end(ExitClass.FENCED, 61),)), State.STOPPED),
    # a driver lives and should
    "everything delivered": Case(seen(driver()), State.IDLE),
    "a little to read": Case(seen(driver(), lag=900, batches=(batch(3, 900),)), State.RUNNING, says="900 to read"),
    "a backlog that shrinks has a forecast": Case(
        seen(driver(), lag=50_000, batches=(batch(1, 50_000), batch(101, 60_000))), State.CATCHING_UP, says="done in 8 min"
    ),
    "one batch gives a forecast too": Case(seen(driver(), lag=5000, batches=(batch(1, 5000),)), State.CATCHING_UP, says="done in 10 s"),
    "no batch yet": Case(seen(driver(age=30), lag=5000), State.CATCHING_UP, says="first batch under way"),
    "a backlog that grows": Case(
        seen(driver(), lag=70_000, batches=(batch(1, 70_000), batch(101, 60_000))), State.SLOW, says="10,000 more than 101 s ago"
    ),
    "a batch of an older generation is no progress": Case(
        seen(driver(age=900), lag=5000, behind=900, batches=(batch(1, 5000, generation=6),)), State.STUCK, Act.KILL
    ),
    "work but no batch": Case(
        seen(driver(), lag=10, behind=400), State.STUCK, Act.KILL, "no batch has finished for 7 min", ExitClass.STUCK
    ),
    "a state that is made again takes its time": Case(
        seen(driver(age=900, state_reads=3000), lag=10, behind=900), State.CATCHING_UP, says="its state is made from 3,000 offsets"
    ),
    "but not for ever": Case(seen(driver(age=1300, state_reads=3000), lag=10, behind=1300), State.STUCK, Act.KILL),
    "nor after its first batch": Case(
        seen(driver(age=900, state_reads=3000), lag=10, behind=900, batches=(batch(400, 10),)), State.STUCK, Act.KILL
    ),
    "work that has just come is no reason": Case(seen(driver(), lag=10, behind=200, batches=(batch(3600, 0),)), State.RUNNING),
    "stuck again after a restart": Case(
        seen(driver(age=500), lag=10, behind=900, ends=(end(ExitClass.STUCK, 500),)), State.STUCK, Act.OPEN_INCIDENT
    ),
    "stuck again after a restart, and left so for hours": Case(
        seen(driver(age=9000), lag=10, behind=9500, ends=(end(ExitClass.STUCK, 9000),)), State.STUCK, Act.OPEN_INCIDENT
    ),
    "stuck again after a long healthy time": Case(
        seen(driver(age=9000), lag=10, behind=9500, ends=(end(ExitClass.STUCK, 9000),), batches=(batch(900, 10),)),
        State.STUCK,
        Act.KILL,
    ),
    "stuck, but by hand": Case(seen(driver(detached=False), lag=10, behind=900), State.STUCK),
    "just launched": Case(seen(driver(generation=None, age=20), lag=10), State.STARTING, says="launched 20 s ago"),
    "fenced but not adopted": Case(seen(driver(adopted=False, age=20), lag=10), State.STARTING),
    "never comes to adopt": Case(seen(driver(adopted=False, age=400), lag=10), State.STUCK, Act.KILL),
    "the broker is down": Case(seen(driver(), lag=None, outage="No broker."), State.WAITING, says="The driver lives"),
    "a sink cannot be read": Case(seen(driver(), lag=None, unreadable="Odd."), State.UNKNOWN, says="Odd."),
    "on another host, heard": Case(seen(driver(alive=None)), State.IDLE),
    "on another host, silent": Case(seen(driver(alive=None, seen=90)), State.CRASH_LOOP, Act.RECORD_END, exit_class=KILLED),
    "on another host, starting": Case(seen(driver(alive=None, generation=None, seen=90, age=90)), State.STARTING),
    "on another host, stuck": Case(seen(driver(alive=None), lag=10, behind=900), State.STUCK),
    # it died
    "gone without a word": Case(seen(driver(alive=False)), State.CRASH_LOOP, Act.RECORD_END, "it was killed", KILLED),
    "launched, but nobody started it": Case(
        seen(driver(alive=False, process=False, generation=None, age=30)), State.WAITING, Act.RECORD_END, exit_class=OUTAGE
    ),
    "launched this moment": Case(
        seen(driver(alive=False, process=False, generation=None, age=3), ends=(end(KILLED, 5),)), State.STARTING, says="3 s ago"
    ),
    "an older one that was taken over": Case(
        seen(driver(), driver(generation=6, launch="old")), State.RUNNING, Act.KILL, "Generation 6 was taken over", ExitClass.FENCED
    ),
    "one that was taken over by one that died": Case(
        seen(driver(generation=6)), State.RUNNING, Act.KILL, "Generation 6 was taken over", ExitClass.FENCED
    ),
    "two of which the newer has not begun": Case(
        seen(driver(generation=None, age=5, launch="new"), driver(launch="old")), State.STARTING
    ),
    "on another host, to be stopped before it began": Case(
        seen(driver(alive=None, generation=None, seen=20, age=20), wanted=False), State.STOPPING
    ),
    # none lives, and one should
    "never ran": Case(seen(lag=10), State.STARTING, Act.START),
    "never ran, and no broker": Case(seen(lag=None, outage="No broker."), State.WAITING, says="No broker."),
    "killed once: at once": Case(seen(ends=(end(KILLED, 1, lived=5000),)), State.STARTING, Act.START),
    "killed twice: after 5 s": Case(seen(ends=(end(KILLED, 1), end(KILLED, 30))), State.CRASH_LOOP, says="again in 4 s"),
    "killed twice, 5 s ago": Case(seen(ends=(end(KILLED, 5), end(KILLED, 30))), State.STARTING, Act.START),
    "killed three times: after 10 s": Case(
        seen(ends=(end(KILLED, 9), end(KILLED, 40), end(KILLED, 60))), State.CRASH_LOOP, says="again in 1 s"
    ),
    "five of one class": Case(
        seen(ends=tuple(end(POISON, n) for n in (1, 100, 200, 300, 400))), State.STOPPED, Act.GIVE_UP, "5 ends as poison", POISON
    ),
    "five of one class, but not within ten minutes": Case(
        seen(ends=tuple(end(POISON, n) for n in (301, 400, 500, 599, 601))), State.STARTING, Act.START
    ),
    "five of different classes": Case(
        seen(ends=(end(POISON, 1), *(end(KILLED, n) for n in (100, 200, 300, 400)))), State.CRASH_LOOP, says="poison (1 of 5)"
    ),
    "four, then a healthy time, then one": Case(
        seen(ends=(end(POISON, 1, lived=700), *(end(POISON, n) for n in (702, 750, 760, 770)))), State.STARTING, Act.START
    ),
    "the pause is five minutes at most": Case(
        seen(ends=tuple(end(POISON if n % 2 else KILLED, 200 + n * 60) for n in range(9))), State.CRASH_LOOP, says="again in 100 s"
    ),
    "outages never end in giving up": Case(
        seen(ends=tuple(end(OUTAGE, n) for n in range(61, 600, 60))), State.STARTING, Act.START
    ),
    "the pause after an outage is a minute at most": Case(
        seen(ends=tuple(end(OUTAGE, n) for n in range(1, 600, 60))), State.WAITING, says="again in 59 s"
    ),
    "too big for memory three times, with a state": Case(
        seen(ends=tuple(end(OUT_OF_MEMORY, n) for n in (9, 40, 3000)), lag=5000, limits=STATEFUL),
        State.STOPPED,
        Act.GIVE_UP,
        "3 ends as out of memory, and no batch was finished between them",
        OUT_OF_MEMORY,
    ),
    "too big for memory three times, without one": Case(
        seen(ends=tuple(end(OUT_OF_MEMORY, n) for n in (9, 40, 60))), State.CRASH_LOOP, says="again in 1 s"
    ),
    "killed three times while idle, with a state": Case(
        seen(ends=tuple(end(KILLED, n) for n in (10, 40, 60)), limits=STATEFUL), State.STARTING, Act.START
    ),
    "too big for memory twice, with a state": Case(
        seen(ends=(end(OUT_OF_MEMORY, 5), end(OUT_OF_MEMORY, 40)), lag=5000, limits=STATEFUL), State.STARTING, Act.START
    ),
    "three ends of two classes, with a state": Case(
        seen(ends=(end(KILLED, 10), end(OUT_OF_MEMORY, 40), end(KILLED, 60)), lag=5000, limits=STATEFUL), State.STARTING, Act.START
    ),
    "killed three times with a batch between, with a state": Case(
        seen(ends=tuple(end(KILLED, n) for n in (10, 40, 60)), batches=(batch(50, 0),), lag=5000, limits=STATEFUL), State.STARTING, Act.START
    ),
    "stopped by somebody's signal": Case(seen(ends=(end(ExitClass.STOPPED, 1), end(KILLED, 9))), State.STARTING, Act.START),
    "fenced by a newer one of ours": Case(seen(ends=(end(ExitClass.FENCED, 1, generation=6),)), State.STARTING, Act.START),
    "fenced by a stranger": Case(
        seen(ends=(end(ExitClass.FENCED, 1, generation=7),)), State.FENCED, Act.GIVE_UP, "another deployment writes here"
    ),
    "hopeless, also while the broker is down": Case(
        seen(lag=None, outage="No broker.", ends=(end(ExitClass.TOPIC_CHANGED, 1),)), State.STOPPED, Act.GIVE_UP
    ),
    "failures before a person spoke are forgiven": Case(
        seen(desired=Desired(True, "somebody", "mended", ago(2)), ends=(end(ExitClass.RETENTION_GAP, 3),)), State.STARTING, Act.START
    ),
    # none should
    "stopped": Case(seen(wanted=False), State.STOPPED, says="by somebody: because"),
    "to be stopped": Case(seen(driver(), wanted=False), State.STOPPING, Act.ASK_TO_STOP),
    "asked to stop": Case(seen(driver(stop_asked=5), wanted=False), State.STOPPING, says="asked 5 s ago"),
    "asked to stop long ago": Case(
        seen(driver(stop_asked=130), wanted=False), State.STOPPING, Act.KILL, exit_class=ExitClass.STOPPED
    ),
    "asked to stop before it began": Case(
        seen(driver(generation=None, age=5), wanted=False), State.STOPPING, Act.KILL, exit_class=ExitClass.STOPPED
    ),
    "by hand, though it should not run": Case(seen(driver(detached=False), wanted=False), State.RUNNING, says="by hand"),
    "paused": Case(seen(pause=PAUSED), State.STOPPED, says="all streams are paused by somebody: maintenance"),
    "to be paused": Case(seen(driver(), pause=PAUSED), State.STOPPING, Act.ASK_TO_STOP),
    "dead while it should be stopped": Case(seen(driver(alive=False), wanted=False), State.CRASH_LOOP, Act.RECORD_END),
}  # fmt: skip
for hopeless in (ExitClass.RETENTION_GAP, ExitClass.TOPIC_CHANGED, ExitClass.CONFIGURATION, ExitClass.SINK_WENT_BACK):
    CASES[f"{hopeless.title}: no restart mends it"] = Case(
        seen(ends=(end(hopeless, 1),)), State.STOPPED, Act.GIVE_UP, hopeless.title, hopeless
    )


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_decision(case: Case) -> None:
    decision = decide(case.seen)
    assert (decision.state, decision.act) == (case.state, case.act), decision.detail
    assert case.says in decision.detail
    if case.exit_class is not None:
        assert decision.exit_class is case.exit_class


def test_every_state_is_decided_by_a_case() -> None:
    assert {case.state for case in CASES.values()} == set(State)


def test_every_act_is_decided_by_a_case() -> None:
    assert {case.act for case in CASES.values() if case.act} == set(Act)
