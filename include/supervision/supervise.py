"""One pass over all streams: observe, decide, act until nothing is left to do; and the table that tells of it."""

from dataclasses import dataclass

from include.contract.catalog import Catalog, read_catalog
from include.control.database import ControlDatabase, ControlDatabaseDown, StreamBusy
from include.control.desired import declare, read_desired
from include.control.incidents import Incident, read_open_incidents
from include.control.stream_states import StreamState, beat, read_states, write_state
from include.supervision.act import Actor
from include.supervision.decide import Act, Decision, decide
from include.supervision.launcher import Launcher
from include.supervision.observation import Observation
from include.supervision.observe import Observer
from include.supervision.states import State

ACTS_IN_A_ROW = 4  # such as: record the end, start; more in one pass would be a loop
HEALTHY = {State.RUNNING, State.IDLE, State.CATCHING_UP, State.STARTING, State.STOPPED, State.STOPPING}


@dataclass(frozen=True)
class Pass:
    """What one pass came to."""

    states: list[StreamState]
    incidents: list[Incident]
    problems: list[str]  # of stream files

    @property
    def verdict(self) -> str:
        titles = {state.title for state in HEALTHY}
        unwell = [state for state in self.states if state.state not in titles]
        told = [f"{state.stream} is {state.state}" for state in unwell]
        told += [f"incident {one.id} of {one.stream} ({one.title}) is open" for one in self.incidents]
        told += self.problems[:1]
        return "; ".join(told) if told else "every stream is as it should be"


class Supervisor:
    def __init__(self, control: ControlDatabase, observer: Observer, launcher: Launcher) -> None:
        self._control = control
        self._observer = observer
        self._launcher = launcher
        self._actor = Actor(control, launcher)

    def supervise(self, run: str) -> Pass:
        self._control.migrate()  # it may have come back empty
        catalog = read_catalog()
        self._declare(catalog)
        states = [self._look_after(seen, catalog) for seen in self._observer.observe(catalog)]
        return self._write(states, catalog, run)

    def _declare(self, catalog: Catalog) -> None:
        with self._control.transaction() as cursor:
            known = read_desired(cursor)
            for name, stream in catalog.streams.items():
                if name not in known:
                    declare(cursor, name, running=stream.spec.enabled)

    def _look_after(self, seen: Observation, catalog: Catalog) -> StreamState:
        decision = Decision(State.UNKNOWN, "")
        try:
            decision = decide(seen)
            if decision.act is not None:
                with self._control.lock(seen.stream):
                    seen, decision = self._act(seen.stream, catalog)
            if decision.driver and decision.driver.launched.generation:
                self._launcher.rotate_log(seen.stream, decision.driver.launched.generation)
        except StreamBusy:
            pass  # a runbook is at it
        except ControlDatabaseDown:
            raise
        except Exception as error:  # noqa: BLE001 - one stream's trouble must not keep the others from being looked after
            decision = Decision(State.UNKNOWN, f"supervision could not act: {error}")
        return _state(seen, decision)

    def _act(self, stream: str, catalog: Catalog) -> tuple[Observation, Decision]:
        """Looks again now that nobody else acts: what was seen before the lock may be done already."""
        for _ in range(ACTS_IN_A_ROW):
            (seen,) = self._observer.observe(catalog, [stream])
            decision = decide(seen)
            if decision.act is None:
                break
            self._actor.act(decision, seen)
            if decision.act is Act.OPEN_INCIDENT:
                break  # it changes nothing about what is seen
        return seen, decision

    def _write(self, states: list[StreamState], catalog: Catalog, run: str) -> Pass:
        with self._control.transaction() as cursor:
            before = read_states(cursor)
            kept = [_since(state, before.get(state.stream)) for state in states]
            for state in kept:
                write_state(cursor, state)
            done = Pass(kept, read_open_incidents(cursor), [str(problem) for problem in catalog.problems])
            beat(cursor, run, done.verdict)
        return done


def _state(seen: Observation, decision: Decision) -> StreamState:
    generation = decision.driver.launched.generation if decision.driver else None
    lag = seen.lag
    return StreamState(
        stream=seen.stream,
        state=decision.state.title,
        detail=decision.detail,
        lag=lag.offsets if lag else None,
        generation=generation,
        since=seen.now,
        behind_since=lag.since if lag else None,
        observed_at=seen.now,
    )


def _since(now: StreamState, before: StreamState | None) -> StreamState:
    unchanged = before is not None and (before.state, before.generation) == (now.state, now.generation)
    return StreamState(**{**vars(now), "since": before.since}) if before and unchanged else now
