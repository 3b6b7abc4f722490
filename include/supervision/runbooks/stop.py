"""stop_stream."""

from include.control.desired import read_desired, set_desired
from include.supervision.ground import LOCK_SECONDS, Ground
from include.supervision.runbooks.request import Acted, Planned, Request, RequestRefused
from include.supervision.runbooks.starting import UNTOUCHED
from include.supervision.runbooks.stopping import stop_driver, verify_stopped


class StopStream:
    def check(self, ground: Ground, request: Request) -> str:
        with ground.control.transaction() as cursor:
            known = read_desired(cursor)
        if request.stream not in known:
            raise RequestRefused(
                f"There is no stream {request.stream!r}; there are: {', '.join(sorted(known)) or 'none'}.",
                state="Nothing was changed.",
                next_step="Trigger the runbook again with one of them.",
            )
        return f"{request.stream} is known."

    def plan(self, ground: Ground, request: Request) -> Planned:
        seen = ground.observe(request.stream)
        number = seen.driver.launched.generation if seen.driver else None
        what = f"Generation {number} finishes the batch in hand and ends." if seen.driver else "No driver runs."
        return Planned(f"**SAFE**: {what} {request.stream} then stays stopped until start_stream. No data is touched.")

    def act(self, ground: Ground, request: Request, planned: Planned, approved_by: str | None) -> Acted:
        with ground.control.lock(request.stream, LOCK_SECONDS):
            with ground.control.transaction() as cursor:
                set_desired(cursor, request.stream, running=False, set_by=request.asked_by, reason=request.reason)
            stopped = stop_driver(ground, request.stream, asked_by=request.asked_by, reason=request.reason)
        return Acted(["desired state: stopped", stopped], UNTOUCHED)

    def verify(self, ground: Ground, request: Request, acted: Acted) -> str:
        return verify_stopped(ground, request.stream)
