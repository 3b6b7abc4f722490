"""Health is progress, not liveness: judged from the backlog and the batches that finished."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from include.control.drivers import Batch
from include.supervision.observation import Driver, Observation
from include.supervision.states import State

TREND = timedelta(minutes=5)  # how far back the forecast looks
LONGEST_START = timedelta(minutes=3)  # a first start with a cold disk took 70 s


@dataclass(frozen=True)
class Health:
    state: State
    detail: str


def judge_health(driver: Driver, seen: Observation) -> Health:
    if seen.outage is not None:
        return Health(State.WAITING, f"{seen.outage} The driver lives and goes on when it is back.")
    if not driver.adopted and not seen.unreadable:
        return _starting(driver, seen)
    if seen.lag is None:
        return Health(State.UNKNOWN, f"how much there is to read is not known. {seen.unreadable}")
    if not seen.lag.offsets:
        return Health(State.IDLE, f"everything is delivered{seen.file_note}")
    return _working(driver, seen, seen.lag.offsets)


def _starting(driver: Driver, seen: Observation) -> Health:
    waited = seen.now - driver.launched.asked_at
    said = f"launched {waited.total_seconds():.0f} s ago"
    return Health(State.STUCK if waited > max(LONGEST_START, seen.limits.stuck_after) else State.STARTING, said)


def _working(driver: Driver, seen: Observation, lag: int) -> Health:
    batches = [batch for batch in seen.batches if batch.generation == driver.launched.generation]
    again = 0 if batches else driver.launched.state_reads
    quiet = seen.now - last_progress(driver, seen)
    if quiet > seen.limits.patience(again):
        return Health(State.STUCK, f"{lag:,} to read, but no batch has finished for {_short(quiet)}")
    if again:
        return Health(State.CATCHING_UP, f"{lag:,} to read; before that its state is made from {again:,} offsets{seen.file_note}")
    if lag <= seen.limits.records_per_batch:
        return Health(State.RUNNING, f"{lag:,} to read{seen.file_note}")
    if not batches:
        return Health(State.CATCHING_UP, f"{lag:,} to read, first batch under way{seen.file_note}")
    return _forecast(batches, lag, seen)


def last_progress(driver: Driver, seen: Observation) -> datetime:
    """Of the last batch, the take-over, and the arrival of the work, the latest."""
    launched = driver.launched
    told = [batch.finished_at for batch in seen.batches[:1] if batch.generation == launched.generation]
    since = [seen.lag.since] if seen.lag and seen.lag.since else []
    return max([*told, *since, launched.taken_at or launched.asked_at])


def _forecast(batches: list[Batch], lag: int, seen: Observation) -> Health:
    recent = [batch for batch in batches if seen.now - batch.finished_at < TREND] or batches[:1]
    newest, oldest = recent[0], recent[-1]
    if len(recent) == 1:
        shrinks_per_second = newest.read / max(newest.seconds, 0.001)
    else:
        span = (newest.finished_at - oldest.finished_at).total_seconds()
        shrinks_per_second = (oldest.lag - newest.lag) / max(span, 0.001)
    if shrinks_per_second <= 0:
        grew = newest.lag - oldest.lag
        return Health(
            State.SLOW, f"{lag:,} to read, {grew:,} more than {_short(seen.now - oldest.finished_at)} ago{seen.file_note}"
        )
    left = timedelta(seconds=lag / shrinks_per_second)
    return Health(State.CATCHING_UP, f"{lag:,} to read, done in {_short(left)}{seen.file_note}")


def _short(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
