"""The steps of runbook DAGs at run time: from Airflow's context to a request, and back to what a person reads."""

from typing import Any

from include.airflow_parts.conf_keys import refuse_unknown_keys
from include.airflow_parts.runbook import ANSWER
from include.airflow_parts.supervision_tasks import make_ground
from include.control.database import StreamBusy
from include.control.journal import write_journal
from include.supervision.ground import Ground
from include.supervision.runbooks.registry import RUNBOOKS
from include.supervision.runbooks.request import Acted, PlanIsStale, Planned, Request, RequestRefused

FAILED = {"failed", "upstream_failed"}
REFUSED = "refused"  # by act itself, before it touched anything
STEPS = ("check", "plan", "approve", "act", "verify")


class RunbookFailed(Exception):
    """A step before the report failed; its own log and the report say how."""


def check(context: Any) -> str:
    request, ground = _request(context), make_ground()
    refuse_unknown_keys(context)
    ground.control.migrate()
    return _say(RUNBOOKS[request.runbook].check(ground, request))


def plan(context: Any) -> dict[str, Any]:
    request = _request(context)
    planned = RUNBOOKS[request.runbook].plan(make_ground(), request)
    _say(planned.text)
    return planned.to_plain()


def act(context: Any) -> dict[str, Any]:
    request, ground = _request(context), make_ground()
    planned = Planned(**context["ti"].xcom_pull(task_ids="plan"))
    approved_by = _approved_by(context)
    of_one_stream = (StreamBusy,) if request.stream else ()  # pause_all may meet a busy one when it has stopped others
    try:
        _refuse_unapproved(context, request, planned, approved_by)
        acted = RUNBOOKS[request.runbook].act(ground, request, planned, approved_by)
    except (RequestRefused, PlanIsStale, *of_one_stream) as refusal:
        context["ti"].xcom_push(key=REFUSED, value=refusal.happened)
        raise
    _note(ground, request, "runbook acted", approved_by=approved_by, touched=acted.touched)
    _say(_touched(acted))
    return acted.to_plain()


def _refuse_unapproved(context: Any, request: Request, planned: Planned, approved_by: str | None) -> None:
    """A task before this one that was marked as successful, or cleared alone, is no approval."""
    if request.dry_run:
        raise RequestRefused(
            "This is a dry run.", state="Nothing was changed.", next_step="Trigger the runbook with dry run off."
        )
    shown = (context["ti"].xcom_pull(task_ids="approve", key=ANSWER) or {}).get("plan")
    if planned.needs_approval and (approved_by is None or shown != planned.text):
        raise RequestRefused(
            "Nobody has approved this plan.",
            state="Nothing was changed.",
            next_step="Trigger the runbook again, and answer its Required Action.",
        )


def verify(context: Any) -> str:
    request = _request(context)
    acted = Acted(**context["ti"].xcom_pull(task_ids="act"))
    return _say(RUNBOOKS[request.runbook].verify(make_ground(), request, acted))


def report(context: Any) -> str:
    """Always runs. Fails if a step failed, so that the run shows it."""
    request, ti = _request(context), context["ti"]
    acted, verified = ti.xcom_pull(task_ids="act"), ti.xcom_pull(task_ids="verify")
    states = _states(context)
    lines = [
        f"{f'{request.runbook} {request.stream}'.strip()}, asked for by {request.asked_by}: {request.reason}",
        *([f"Approved by {approved_by}."] if (approved_by := _approved_by(context)) else []),
        *([f"Rejected by {rejected_by}."] if (rejected_by := _answered_by(context, "Reject")) else []),
        _touched(Acted(**acted)) if acted else _untouched(states, request, ti.xcom_pull(task_ids="act", key=REFUSED)),
        *([f"Verified: {verified}"] if verified else []),
    ]
    text = _say("\n".join(lines))
    if failed := [step for step in STEPS if states.get(step) in FAILED]:
        _note(make_ground(), request, "runbook failed", step=failed[0], touched=acted["touched"] if acted else [])
        raise RunbookFailed(f"Step {failed[0]} failed; its log says why and what to do next.\n{text}")
    _note(make_ground(), request, "runbook ended", verified=verified, approved_by=approved_by, rejected_by=rejected_by)
    return text


def _request(context: Any) -> Request:
    params = context["params"]
    ceilings = {int(partition): int(offset) for partition, offset in (params.get("ceilings") or {}).items()}
    return Request(
        runbook=context["dag"].dag_id,
        run=context["run_id"],
        asked_by=context["dag_run"].triggering_user_name or "somebody without a name",
        reason=params["reason"],
        stream=params.get("stream", ""),
        mode=params.get("mode", ""),
        ceilings=ceilings,
        dry_run=bool(params.get("dry_run")),
    )


def _approved_by(context: Any) -> str | None:
    return _answered_by(context, "Approve")


def _answered_by(context: Any, option: str) -> str | None:
    """Nobody, if another option was chosen or nobody was asked."""
    answer = context["ti"].xcom_pull(task_ids="approve", key=ANSWER) or {}
    user = answer.get("responded_by_user") if answer.get("chosen_options") == [option] else None
    return (user.get("name") or user.get("id")) if isinstance(user, dict) else getattr(user, "name", None)


def _states(context: Any) -> dict[str, str]:
    dag_id, run_id = context["dag"].dag_id, context["run_id"]
    states = context["ti"].get_task_states(dag_id=dag_id, run_ids=[run_id], task_ids=list(STEPS))
    return {step: str(state) for step, state in states.get(run_id, {}).items()}


def _untouched(states: dict[str, str], request: Request, refusal: str | None) -> str:
    if states.get("act") == "failed" and refusal is None:
        return (
            f"The act ended half-way, and supervision goes on from there: `make journal STREAM={request.stream}` shows how far."
        )
    return f"Nothing was touched: {_why_not(states, request)}."


def _why_not(states: dict[str, str], request: Request) -> str:
    if request.dry_run:
        return "this was a dry run; switch it off to act"
    if step := next((step for step in STEPS if states.get(step) == "failed"), None):
        return {"approve": "the approval expired or could not be asked for"}.get(step, f"step {step} failed")
    return "the plan was rejected"


def _touched(acted: Acted) -> str:
    return f"Touched: {'; '.join(acted.touched) or 'nothing'}.\nNot touched: {'; '.join(acted.untouched)}."


def _note(ground: Ground, request: Request, event: str, **detail: Any) -> None:
    with ground.control.transaction() as cursor:
        told = {"runbook": request.runbook, "run": request.run, "reason": request.reason, **detail}
        write_journal(cursor, request.stream or "*", event, actor=request.asked_by, **told)


def _say(text: str) -> str:
    print(text, flush=True)
    return text
