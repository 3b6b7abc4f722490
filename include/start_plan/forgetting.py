"""The time up to which a stateful start may forget events (P6.3), as a plan asks for it and as a person says it."""

import re
from datetime import UTC, datetime

from include.start_plan.objection import Verdict
from include.start_plan.plan import StartPlan


def read_time(text: str) -> int:
    """Milliseconds, of a time as a plan prints it. ValueError for anything else: without its zone it would be a guess."""
    told = datetime.fromisoformat(text)
    if told.tzinfo is None:
        raise ValueError(f"{text!r} does not say its zone")
    return round(told.timestamp() * 1000)


def tell_time(milliseconds: int) -> str:
    """As a plan prints it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def asked_to_forget(plan: StartPlan) -> int | None:
    """Exactly the time that the plan's sentence names: that is what a person approves. None if nothing is to be forgotten."""
    asked = (one.next_step for one in (plan.state.objections if plan.state else ()) if one.verdict is Verdict.NEEDS_APPROVAL)
    named = (found for next_step in asked if (found := re.search(r"FORGET=([^\s)]+)", next_step)))
    return next((read_time(found[1]) for found in named), None)
