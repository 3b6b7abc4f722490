"""The modes of `recover_stream`: from what a start takes a stateful stream's state, and what it may accept. Pure."""

from dataclasses import dataclass

from include.contract.catalog import Stream
from include.contract.exit_class import ExitClass
from include.start_plan.approvals import TakeState
from include.start_plan.objection import Objection, Verdict
from include.start_plan.plan import StartPlan
from include.supervision.runbooks.request import RequestRefused


@dataclass(frozen=True)
class Mode:
    """`accepts`: classes of objections that a person may approve; None for whatever the plan asks for. `may_forget`: that events
    are in no state any more, which has the class of a loss."""

    accepts: frozenset[ExitClass] | None = frozenset()
    may_forget: bool = False
    take_state: TakeState = "continue"
    of_state: bool | None = None  # only for streams that have one; False: only for others; None: for all
    accepts_something: bool = False  # and is not for a start that is SAFE

    def may_approve(self, objection: Objection, plan: StartPlan) -> bool:
        if objection.verdict is Verdict.REFUSED:
            return False
        if plan.state is not None and objection in plan.state.objections:
            return self.may_forget
        return self.accepts is None or objection.exit_class in self.accepts


START = Mode(accepts=None, may_forget=True)
MODES = {
    "rebuild": Mode(of_state=False),
    "continue": Mode(of_state=True),
    "restore": Mode(take_state="restore", of_state=True),
    "warm_up": Mode(take_state="warm_up", may_forget=True, of_state=True),
    "forget": Mode(may_forget=True, of_state=True, accepts_something=True),
    "accept_loss": Mode(frozenset({ExitClass.RETENTION_GAP}), may_forget=True, accepts_something=True),
    "accept_change": Mode(frozenset({ExitClass.SINK_WENT_BACK}), accepts_something=True),
    "new_topic": Mode(frozenset({ExitClass.TOPIC_CHANGED}), accepts_something=True),
}


def refuse_for_other_streams(stream: Stream, mode: str) -> None:
    """`rebuild` does not say what becomes of a state, and the others have nothing to say without one."""
    wanted = MODES[mode].of_state
    if wanted is None or wanted == stream.spec.is_stateful:
        return
    what = "has a state" if stream.spec.is_stateful else "has no state (neither dedupe nor aggregate)"
    fit = [name for name, one in MODES.items() if one.of_state == stream.spec.is_stateful]
    raise RequestRefused(
        f"{stream.name} {what}: mode {mode} is not for it.",
        state="Nothing was changed.",
        next_step=f"Trigger the runbook again with mode {' or '.join(fit)}.",
    )
