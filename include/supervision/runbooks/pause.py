"""pause_all and resume_all: over what each stream's own desired state says, which they leave alone."""

from include.contract.catalog import read_catalog
from include.control.desired import Desired, pause_all, read_desired, read_pause, resume_all
from include.supervision.ground import LOCK_SECONDS, Ground
from include.supervision.runbooks.request import Acted, NotVerified, Planned, Request, RequestRefused
from include.supervision.runbooks.stopping import stop_driver, verify_stopped

UNTOUCHED = ["each stream's own desired state", "tables and their rows", "quarantine", "checkpoints"]


class PauseAll:
    def check(self, ground: Ground, request: Request) -> str:
        return f"{len(read_catalog().streams)} stream files are valid."

    def plan(self, ground: Ground, request: Request) -> Planned:
        running = [name for name, desired in _desired(ground).items() if desired.running]
        return Planned(f"**SAFE**: {len(running)} streams stop after the batch in hand ({', '.join(running) or 'none'}).")

    def act(self, ground: Ground, request: Request, planned: Planned, approved_by: str | None) -> Acted:
        with ground.control.transaction() as cursor:
            pause_all(cursor, set_by=request.asked_by, reason=request.reason)
        touched = ["the pause over all streams"]
        for name in _desired(ground):
            with ground.control.lock(name, LOCK_SECONDS):
                touched.append(f"{name}: {stop_driver(ground, name, asked_by=request.asked_by, reason=request.reason)}")
        return Acted(touched, UNTOUCHED)

    def verify(self, ground: Ground, request: Request, acted: Acted) -> str:
        return "; ".join(verify_stopped(ground, name) for name in _desired(ground))


class ResumeAll:
    def check(self, ground: Ground, request: Request) -> str:
        with ground.control.transaction() as cursor:
            pause = read_pause(cursor)
        if pause is None:
            raise RequestRefused(
                "The streams are not paused.", state="Nothing was changed.", next_step="To start one stream use start_stream."
            )
        return f"Paused by {pause.set_by} since {pause.since:%Y-%m-%d %H:%M} UTC: {pause.reason}."

    def plan(self, ground: Ground, request: Request) -> Planned:
        wanted = [name for name, desired in _desired(ground).items() if desired.running]
        return Planned(f"**SAFE**: {len(wanted)} streams go on at their tidemarks ({', '.join(wanted) or 'none'}).")

    def act(self, ground: Ground, request: Request, planned: Planned, approved_by: str | None) -> Acted:
        with ground.control.transaction() as cursor:
            resume_all(cursor, set_by=request.asked_by, reason=request.reason)
        return Acted(["the pause over all streams is lifted"], UNTOUCHED)

    def verify(self, ground: Ground, request: Request, acted: Acted) -> str:
        """Supervision starts them; what becomes of each is its own affair."""
        with ground.control.transaction() as cursor:
            if pause := read_pause(cursor):
                raise NotVerified(
                    f"All streams are paused by {pause.set_by} since {pause.since:%Y-%m-%d %H:%M} UTC: {pause.reason}.",
                    state="The pause that this run lifted was followed by another.",
                    next_step="Ask who paused them again.",
                )
        return "The pause is lifted. Supervision starts each stream that should run within seconds; `make status` shows them."


def _desired(ground: Ground) -> dict[str, Desired]:
    with ground.control.transaction() as cursor:
        return read_desired(cursor)
