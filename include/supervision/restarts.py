"""When a stream whose driver ended is started again, and when no more: backoff, crash loop, classes that no restart mends."""

from dataclasses import dataclass
from datetime import timedelta

from include.contract.exit_class import ExitClass
from include.control.drivers import Ended
from include.supervision.observation import Observation

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)
LONGEST_WAIT = timedelta(seconds=60)  # after an outage: streams run again within two minutes of its end
LOOP_FAILURES = 5  # of one class
LOOP_WINDOW = timedelta(minutes=10)
HEALTHY = timedelta(minutes=10)  # a driver that lived so long forgives the failures before it
TOO_BIG_FAILURES = 3  # P3.9: a stateful stream's batches are not halved, so the third end of one class is an incident
TOO_BIG = {ExitClass.OUT_OF_MEMORY, ExitClass.KILLED, ExitClass.STUCK}
HOPELESS = {ExitClass.RETENTION_GAP, ExitClass.TOPIC_CHANGED, ExitClass.CONFIGURATION, ExitClass.SINK_WENT_BACK}


@dataclass(frozen=True)
class Restart:
    why: str
    due: bool = False
    hopeless: bool = False
    failures: int = 0


def plan_restart(seen: Observation) -> Restart:
    """At least one driver has ended since a person last said that the stream should run."""
    last = seen.ends_since[0]
    title = last.exit_class.title
    if last.exit_class in HOPELESS:
        return Restart(f"{title}: {last.happened}", hopeless=True, failures=1)
    if last.exit_class is ExitClass.FENCED and (last.generation or 0) >= seen.newest_generation:
        return Restart(f"another deployment writes here: {last.happened}", hopeless=True, failures=1)
    if seen.limits.is_stateful and _is_too_big(seen):
        said = f"{TOO_BIG_FAILURES} ends as {title}, and no batch was finished between them. {last.happened}"
        return Restart(said, hopeless=True, failures=TOO_BIG_FAILURES)
    failures = _failures(seen)
    alike = [end for end in failures if end.exit_class is last.exit_class and seen.now - end.ended_at < LOOP_WINDOW]
    if last.exit_class is not ExitClass.INFRASTRUCTURE and len(alike) >= LOOP_FAILURES:
        minutes = LOOP_WINDOW.total_seconds() / 60
        said = f"{len(alike)} ends as {title} within {minutes:.0f} minutes. {last.happened}"
        return Restart(said, hopeless=True, failures=len(alike))
    return _paused(last, failures, len(alike), seen)


def _is_too_big(seen: Observation) -> bool:
    """The batch in hand is too long, or too big for memory, however often it is tried. An idle stream has none."""
    newest = seen.ends_since[:TOO_BIG_FAILURES]
    classes = {end.exit_class for end in newest}
    has_work = seen.lag is not None and seen.lag.offsets > 0
    if not has_work or len(newest) < TOO_BIG_FAILURES or len(classes) != 1 or not classes <= TOO_BIG:
        return False
    return not any(batch.finished_at > newest[-1].ended_at for batch in seen.batches)


def _failures(seen: Observation) -> list[Ended]:
    """In a row, newest first: up to the last end that was asked for, or the last driver that lived for a healthy time."""
    failures: list[Ended] = []
    for end in seen.ends_since:
        if end.exit_class is ExitClass.STOPPED:
            break
        failures.append(end)
        if end.ended_at - end.asked_at > HEALTHY:
            break
    return failures


def _paused(last: Ended, failures: list[Ended], alike: int, seen: Observation) -> Restart:
    left = last.ended_at + _pause(last, len(failures)) - seen.now
    number = "" if last.exit_class in (ExitClass.INFRASTRUCTURE, ExitClass.STOPPED) else f" ({alike} of {LOOP_FAILURES})"
    said = f"{last.exit_class.title}{number}: {last.happened}"
    if left <= timedelta(0):
        return Restart(f"started again after {said}", due=True, failures=len(failures))
    return Restart(f"again in {left.total_seconds():.0f} s. {said}", failures=len(failures))


def _pause(last: Ended, failures: int) -> timedelta:
    """None after the first: a driver that died once is brought back at once."""
    if failures <= 1:
        return timedelta(0)
    longest = LONGEST_WAIT if last.exit_class is ExitClass.INFRASTRUCTURE else LONGEST_PAUSE
    doubled: timedelta = FIRST_PAUSE * 2 ** min(failures - 2, 10)
    return min(longest, doubled)
