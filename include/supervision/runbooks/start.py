"""start_stream, restart_stream, recover_stream."""

from include.contract.catalog import find_stream
from include.control.generations import find_launch
from include.supervision.ground import LOCK_SECONDS, Ground
from include.supervision.runbooks.modes import MODES, refuse_for_other_streams
from include.supervision.runbooks.request import Acted, Planned, Request, RequestRefused
from include.supervision.runbooks.starting import (
    UNTOUCHED,
    launch,
    plan_for,
    refuse_if_worse,
    refuse_while_paused,
    verify_delivery,
    want_running,
)
from include.supervision.runbooks.stopping import stop_driver


class StartStream:
    def check(self, ground: Ground, request: Request) -> str:
        find_stream(request.stream)
        refuse_while_paused(ground)
        return f"{request.stream} has a valid file."

    def plan(self, ground: Ground, request: Request) -> Planned:
        return plan_for(ground, request)

    def act(self, ground: Ground, request: Request, planned: Planned, approved_by: str | None) -> Acted:
        with ground.control.lock(request.stream, LOCK_SECONDS):
            if before := find_launch(ground.control, request.id):
                return _asked_before(before)
            refuse_if_worse(ground, find_stream(request.stream), planned)
            want_running(ground, request)
            if driver := ground.observe(request.stream).driver:
                said = f"generation {driver.launched.generation} runs already; no second driver was started"
                return Acted(["desired state: running"], [said, *UNTOUCHED], driver.launched.launch)
            launched = launch(ground, request, planned, approved_by)
        return Acted(["desired state: running", f"a new driver, launch {launched}"], UNTOUCHED, launched)

    def verify(self, ground: Ground, request: Request, acted: Acted) -> str:
        return verify_delivery(ground, request.stream, acted.launch or "")


class RestartStream(StartStream):
    def act(self, ground: Ground, request: Request, planned: Planned, approved_by: str | None) -> Acted:
        with ground.control.lock(request.stream, LOCK_SECONDS):
            if before := find_launch(ground.control, request.id):
                return _asked_before(before)
            refuse_if_worse(ground, find_stream(request.stream), planned)
            want_running(ground, request)  # should we die after the stop, supervision starts it again
            stopped = stop_driver(ground, request.stream, asked_by=request.asked_by, reason=request.reason)
            launched = launch(ground, request, planned, approved_by)
        return Acted([stopped, "desired state: running", f"a new driver, launch {launched}"], UNTOUCHED, launched)


class RecoverStream(RestartStream):
    """A restart that may do one thing more, named by its mode and approved with its numbers."""

    def check(self, ground: Ground, request: Request) -> str:
        refuse_for_other_streams(find_stream(request.stream), request.mode)
        return super().check(ground, request)

    def plan(self, ground: Ground, request: Request) -> Planned:
        planned = plan_for(ground, request, MODES[request.mode])
        if MODES[request.mode].accepts_something and not planned.needs_approval:
            raise RequestRefused(
                f"There is nothing to accept by mode {request.mode}: the start plan is SAFE.\n\n{planned.text}",
                state="Nothing was changed.",
                next_step="Use start_stream or restart_stream.",
            )
        return planned


def _asked_before(launched: str) -> Acted:
    """The task was cleared after it had acted."""
    return Acted([], [f"this run has launched {launched} already; no second driver was started", *UNTOUCHED], launched)
