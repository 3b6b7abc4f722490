"""The steps that `start_stream`, `restart_stream` and `recover_stream` share: plan a start, launch it, see it deliver."""

import time
from collections.abc import Iterator

from include.contract.catalog import Stream, find_stream
from include.contract.exit_class import ExitClass
from include.contract.fingerprint import spec_hash
from include.control.desired import read_pause, set_desired
from include.control.incidents import close_incidents
from include.start_plan.approvals import Approvals, ApprovedLoss
from include.start_plan.event_times import tell_time
from include.start_plan.objection import Verdict
from include.start_plan.plan import StartPlan
from include.start_plan.render import render_plan
from include.start_plan.world import World
from include.supervision.ground import Ground
from include.supervision.observation import Driver, Observation
from include.supervision.runbooks.modes import START, Mode
from include.supervision.runbooks.request import NotVerified, PlanIsStale, Planned, Request, RequestRefused

VERIFY_SECONDS = 300  # a first batch of 200,000 records on a busy machine took 43 s, a cold start as long again
LOOK_SECONDS = 1.0
DRIVERS_ENDS = [exit_class.title for exit_class in ExitClass]  # an incident of the books is not settled by a start
UNTOUCHED = ["tables and their rows", "quarantine", "older checkpoints", "other streams"]


def refuse_while_paused(ground: Ground) -> None:
    with ground.control.transaction() as cursor:
        pause = read_pause(cursor)
    if pause is not None:
        raise RequestRefused(
            f"All streams are paused by {pause.set_by} since {pause.since:%Y-%m-%d %H:%M} UTC: {pause.reason}.",
            state="Nothing was changed.",
            next_step="Run resume_all first.",
        )


def plan_for(ground: Ground, request: Request, mode: Mode = START) -> Planned:
    stream = find_stream(request.stream)
    world, plan = ground.plan(stream, Approvals(state=mode.take_state))
    text = render_plan(stream, world, plan)
    if against := [one for one in plan.objections if not mode.may_approve(one, plan)]:
        raise RequestRefused(
            f"The start plan stands against it.\n\n{text}\n\n" + " ".join(one.sentence for one in against),
            state="Nothing was changed.",
            next_step=" ".join(dict.fromkeys(one.next_step for one in against)),
        )
    approvals = approve_exactly(plan, world, request.ceilings).model_copy(update={"state": mode.take_state})
    text = "\n".join([text, *_covers(approvals)])
    needed = plan.verdict is Verdict.NEEDS_APPROVAL
    return Planned(text, needed, spec_hash(stream), approvals.model_dump(mode="json"))


def _covers(approvals: Approvals) -> Iterator[str]:
    for one in approvals.losses:
        yield f"- Covers a loss of partition {one.partition} up to {one.ceiling:,}."
    if approvals.forget_through_ms is not None:
        yield f"- Covers that events up to {tell_time(approvals.forget_through_ms)} are in no state, and none after that."


def approve_exactly(plan: StartPlan, world: World, ceilings: dict[int, int]) -> Approvals:
    """What the plan shows and no more, except up to the ceilings that a person named."""
    losses = tuple(
        ApprovedLoss(partition=loss.partition, start=loss.start, ceiling=max(loss.end, ceilings.get(loss.partition, 0)))
        for loss in plan.losses
    )
    states = {**world.sinks, world.quarantine.sink: world.quarantine}
    changes = frozenset((name, change.version) for name, state in states.items() for change in state.changes)
    made_anew = any(one.exit_class is ExitClass.TOPIC_CHANGED for one in plan.objections)
    new_topic = world.topic.topic_id if made_anew else None
    forget = plan.state.asks_to_forget_ms if plan.state else None
    return Approvals(losses=losses, changes=changes, new_topic=new_topic, forget_through_ms=forget)


def refuse_if_worse(ground: Ground, stream: Stream, planned: Planned) -> None:
    refuse_while_paused(ground)
    if spec_hash(stream) != planned.spec_hash:
        raise PlanIsStale(
            f"The file of {stream.name} has changed since the plan was made.",
            state="Nothing was changed.",
            next_step="Trigger the runbook again: it makes a new plan.",
        )
    _, plan = ground.plan(stream, Approvals.model_validate(planned.approvals))
    if plan.verdict is not Verdict.SAFE:
        raise PlanIsStale(
            "The world has changed since the plan was made: " + " ".join(one.sentence for one in plan.objections),
            state="Nothing was changed.",
            next_step="Trigger the runbook again: it makes a new plan.",
        )


def want_running(ground: Ground, request: Request) -> None:
    """Before any deed: should we die after it, supervision goes on. Failures are counted anew from here."""
    with ground.control.transaction() as cursor:
        set_desired(cursor, request.stream, running=True, set_by=request.asked_by, reason=request.reason)
        close_incidents(cursor, request.stream, DRIVERS_ENDS, closed_by=request.asked_by)


def launch(ground: Ground, request: Request, planned: Planned, approved_by: str | None) -> str:
    """The caller holds the stream's lock."""
    reason = f"{request.runbook}: {request.reason}" + (f" (approved by {approved_by})" if approved_by else "")
    return ground.actor.start(
        request.stream, asked_by=request.asked_by, reason=reason, approvals=planned.approvals, request=request.id
    )


def verify_delivery(ground: Ground, stream: str, launched: str) -> str:
    """A commit by the new generation, or nothing to read. A state that is made again takes its time."""
    began = time.monotonic()
    while True:
        seen = ground.observe(stream)
        seconds = VERIFY_SECONDS + _longer_for_state(seen, launched)
        if said := _delivers(seen, launched):
            return said
        if ended := next((end for end in seen.ends if end.launch == launched), None):
            raise NotVerified(
                f"The driver ended as {ended.exit_class.title}: {ended.happened}",
                state="The sinks hold their tidemarks; supervision decides about the next start.",
                next_step=ended.next_step,
            )
        if time.monotonic() > began + seconds:
            raise NotVerified(
                f"The driver of launch {launched} has committed nothing within {seconds:.0f} s.",
                state="It lives, and supervision watches it; no data is at risk.",
                next_step="See the supervise_streams log and the driver's own log.",
            )
        time.sleep(LOOK_SECONDS)


def _delivers(seen: Observation, launched: str) -> str | None:
    driver = next((one for one in seen.drivers if one.launched.launch == launched), None) or _newer(seen, launched)
    if driver is None or not driver.adopted:
        return None
    number, again = driver.launched.generation, driver.launched.state_reads
    if seen.batches and seen.batches[0].generation == number:
        if again and not seen.batches[0].read:
            return f"Generation {number} has made its state again from {again:,} offsets, and goes on."
        return f"Generation {number} has committed batch {seen.batches[0].batch} with {seen.batches[0].read:,} records."
    if seen.lag is not None and not seen.lag.offsets:
        return f"Generation {number} has taken over, and there is nothing to read."
    return None


def _longer_for_state(seen: Observation, launched: str) -> float:
    again = next((one.launched.state_reads for one in seen.drivers if one.launched.launch == launched), 0)
    return (seen.limits.patience(again) - seen.limits.patience(0)).total_seconds()


def _newer(seen: Observation, launched: str) -> Driver | None:
    """Ours may have been followed by another already, such as after a kill."""
    ended = any(end.launch == launched and end.exit_class is ExitClass.FENCED for end in seen.ends)
    return seen.driver if ended else None
