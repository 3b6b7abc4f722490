"""Decides, from what was seen of a stream, what its state is and what is to be done. Pure: reads no clock and no database."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from include.contract.exit_class import ExitClass
from include.control.drivers import Ended
from include.supervision.health import LONGEST_START, judge_health, last_progress
from include.supervision.observation import Driver, Observation
from include.supervision.restarts import HEALTHY, Restart, plan_restart
from include.supervision.states import State

ACTOR = "supervision"  # as the one who gave a stream up
UNSTARTED = timedelta(seconds=20)  # a launch whose process is not to be found: its launcher died between the two
SILENT = timedelta(seconds=60)  # a driver tells of itself every second
STOP_PATIENCE = timedelta(minutes=2)  # past it the driver is killed, which is safe: the batch in hand is delivered again


class Act(StrEnum):
    START = "start"
    ASK_TO_STOP = "ask to stop"
    KILL = "kill"
    RECORD_END = "record the end"
    GIVE_UP = "give up"
    OPEN_INCIDENT = "open an incident"


@dataclass(frozen=True)
class Decision:
    """`exit_class` is that of the end or the incident which the act records; `detail` is its sentence."""

    state: State
    detail: str
    act: Act | None = None
    driver: Driver | None = None
    exit_class: ExitClass | None = None
    next_step: str = ""
    evidence: dict[str, Any] | None = None


def decide(seen: Observation) -> Decision:
    if gone := next((driver for driver in seen.drivers if _is_gone(driver, seen)), None):
        return _record_end(gone, seen)
    if older := next((one for one in seen.drivers if _is_left_over(one, seen)), None):
        return Decision(State.RUNNING, _left_over(older), Act.KILL, older, ExitClass.FENCED)
    driver = seen.driver
    if not seen.is_wanted:
        return _winding_down(driver, seen) if driver else Decision(_stopped(seen), _why_stopped(seen))
    if driver is None:
        return _about_to_start(seen) or _starting_again(seen)
    return _watching(driver, seen)


def _is_gone(driver: Driver, seen: Observation) -> bool:
    """On another host: not heard of for long. Should it live after all, its successor fences it."""
    launched, age = driver.launched, seen.now - driver.launched.asked_at
    if launched.process is None:
        return driver.alive is False and age > UNSTARTED
    if driver.alive is None:
        silent = seen.now - launched.process.seen_at
        return silent > (LONGEST_START if launched.generation is None else SILENT)
    return not driver.alive


def _record_end(driver: Driver, seen: Observation) -> Decision:
    launched = driver.launched
    if launched.process is None:
        said = f"Launch {launched.launch} never became a process: whoever was to start it died first."
        return Decision(State.WAITING, said, Act.RECORD_END, driver, ExitClass.INFRASTRUCTURE)
    lived = (seen.now - launched.asked_at).total_seconds()
    who = f"pid {launched.process.process.pid} on {launched.process.host}"
    said = f"The driver ({who}) is gone after {lived:.0f} s without a word: it was killed, or never came to speak."
    return Decision(State.CRASH_LOOP, said, Act.RECORD_END, driver, ExitClass.KILLED)


def _is_left_over(driver: Driver, seen: Observation) -> bool:
    """A driver of ours that a newer generation has fenced, or is about to, but which has had no batch to notice it by."""
    number = driver.launched.generation
    return bool(driver.alive and driver.detached and number is not None and number < seen.newest_generation)


def _left_over(driver: Driver) -> str:
    return f"Generation {driver.launched.generation} was taken over, and is ended."


def _winding_down(driver: Driver, seen: Observation) -> Decision:
    if not driver.detached:
        return Decision(State.RUNNING, "started by hand; supervision leaves it alone", driver=driver)
    asked_at = driver.launched.stop_asked_at
    if driver.launched.generation is None:
        act = Act.KILL if driver.alive else None  # on another host it can be asked only when it has begun
        return Decision(State.STOPPING, "it had not begun yet", act, driver, ExitClass.STOPPED)
    if asked_at is None:
        return Decision(State.STOPPING, _why_stopped(seen), Act.ASK_TO_STOP, driver)
    waited = seen.now - asked_at
    if waited > STOP_PATIENCE and driver.alive:
        said = f"not stopped {waited.total_seconds():.0f} s after it was asked: killed"
        return Decision(State.STOPPING, said, Act.KILL, driver, ExitClass.STOPPED)
    said = f"asked {waited.total_seconds():.0f} s ago, finishes the batch in hand"
    return Decision(State.STOPPING, said, driver=driver)


def _stopped(seen: Observation) -> State:
    """A stream that was given up because a stranger writes its sinks stays *fenced* until a person starts it again."""
    last = next(iter(seen.ends), None)
    given_up = seen.desired.set_by == ACTOR and not seen.desired.running
    return State.FENCED if given_up and last and last.exit_class is ExitClass.FENCED else State.STOPPED


def _why_stopped(seen: Observation) -> str:
    if seen.pause is not None:
        return f"all streams are paused by {seen.pause.set_by}: {seen.pause.reason}"
    return f"by {seen.desired.set_by}: {seen.desired.reason}"


def _about_to_start(seen: Observation) -> Decision | None:
    """Somebody has written a launch and may be starting it at this very moment."""
    ages = (seen.now - driver.launched.asked_at for driver in seen.drivers if driver.launched.process is None)
    youngest = next(ages, None)
    return None if youngest is None else Decision(State.STARTING, f"launched {youngest.total_seconds():.0f} s ago")


def _starting_again(seen: Observation) -> Decision:
    """No driver lives, but one should."""
    last = next(iter(seen.ends_since), None)
    restart = plan_restart(seen) if last else Restart(due=True, why=f"wanted by {seen.desired.set_by}")
    if last and restart.hopeless:
        return _giving_up(restart, last)
    if seen.outage is not None:
        return Decision(State.WAITING, seen.outage)
    if restart.due:
        return Decision(State.STARTING, restart.why, Act.START)
    is_outage = last is not None and last.exit_class is ExitClass.INFRASTRUCTURE
    return Decision(State.WAITING if is_outage else State.CRASH_LOOP, restart.why)


def _giving_up(restart: Restart, last: Ended) -> Decision:
    return Decision(
        State.FENCED if last.exit_class is ExitClass.FENCED else State.STOPPED,
        restart.why,
        Act.GIVE_UP,
        exit_class=last.exit_class,
        next_step=last.next_step,
        evidence={"launch": last.launch, "generation": last.generation, "failures": restart.failures},
    )


def _watching(driver: Driver, seen: Observation) -> Decision:
    health = judge_health(driver, seen)
    if health.state is not State.STUCK or not (driver.detached and driver.alive):
        return Decision(health.state, health.detail, driver=driver)
    went_on = last_progress(driver, seen)
    if not any(end.exit_class is ExitClass.STUCK and went_on - end.ended_at < HEALTHY for end in seen.ends_since):
        return Decision(State.STUCK, f"{health.detail}; restarted once", Act.KILL, driver, ExitClass.STUCK)
    return Decision(
        State.STUCK,
        f"{health.detail}, again after a restart",
        Act.OPEN_INCIDENT,
        driver,
        ExitClass.STUCK,
        ExitClass.STUCK.next_step,
        {"generation": driver.launched.generation, "lag": seen.lag.offsets if seen.lag else None},
    )
