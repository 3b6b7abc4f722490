"""The steps that `stop_stream`, `restart_stream` and `pause_all` share: ask for a stop, and see to it."""

import time

from include.contract.exit_class import ExitClass
from include.supervision.decide import STOP_PATIENCE, Act, Decision
from include.supervision.ground import Ground
from include.supervision.observation import Observation
from include.supervision.runbooks.request import NotVerified
from include.supervision.states import State

LOOK_SECONDS = 0.5


def stop_driver(ground: Ground, stream: str, *, asked_by: str, reason: str) -> str:
    """Asks, waits for the batch in hand, kills past the deadline. The caller holds the stream's lock. Returns what happened."""
    seen = ground.observe(stream)
    driver = seen.driver
    if driver is None:
        return "no driver was running"
    number = driver.launched.generation
    if not driver.detached:
        return "a driver that somebody runs by hand is left alone"
    if number is not None:
        ground.actor.ask_to_stop(stream, driver, asked_by=asked_by, reason=reason)
        if _has_ended(ground, stream, driver.launched.launch, STOP_PATIENCE.total_seconds()):
            return f"generation {number} {_how_it_ended(ground, stream, driver.launched.launch)}"
    if not driver.alive:
        raise NotVerified(
            f"The driver of {stream} runs on another host, and has not ended within {STOP_PATIENCE.total_seconds():.0f} s.",
            state="It is asked to stop; nothing else was changed.",
            next_step="Look at that host; a driver that is gone is noticed after a minute of silence.",
        )
    said = (
        f"{asked_by} asked it to stop; it did not in {STOP_PATIENCE.total_seconds():.0f} s" if number else "it had not begun yet"
    )
    ground.actor.act(Decision(State.STOPPING, said, Act.KILL, driver, ExitClass.STOPPED), seen)
    return f"the driver was killed: {said}"


def verify_stopped(ground: Ground, stream: str) -> str:
    seen: Observation = ground.observe(stream)
    driver = seen.driver
    if driver is not None and driver.detached and driver.alive:
        raise NotVerified(
            f"The driver of {stream} (launch {driver.launched.launch}) still lives.",
            state="It should be stopped, and supervision sees to it.",
            next_step="Wait for supervise_streams, whose log says what it does about it.",
        )
    return f"{stream} is stopped" + ("" if driver is None else ", except for a driver that somebody runs by hand")


def _how_it_ended(ground: Ground, stream: str, launch: str) -> str:
    end = next((end for end in ground.observe(stream).ends if end.launch == launch), None)
    if end is not None and end.exit_class is ExitClass.STOPPED:
        return "finished its batch and stopped"
    return f"ended by itself ({end.exit_class.title})" if end else "ended without a word"


def _has_ended(ground: Ground, stream: str, launch: str, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = ground.observe(stream)
        if not any(one.launched.launch == launch and one.alive is not False for one in seen.drivers):
            return True
        time.sleep(LOOK_SECONDS)
    return False
