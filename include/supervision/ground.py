"""What every runbook and every pass of supervision stands on: the control database, the launcher, the environment."""

from dataclasses import dataclass
from functools import cached_property

from include.contract.catalog import Stream, read_catalog
from include.contract.environment import Environment
from include.control.database import ControlDatabase
from include.start_plan.approvals import Approvals
from include.start_plan.now import plan_now
from include.start_plan.plan import StartPlan
from include.start_plan.world import World
from include.supervision.act import Actor
from include.supervision.launcher import Launcher
from include.supervision.observation import Observation
from include.supervision.observe import Observer

LOCK_SECONDS = 30  # supervision holds a stream for a second or two; another runbook for longer, and then this one gives way


@dataclass(frozen=True)
class Ground:
    environment: Environment
    control: ControlDatabase
    launcher: Launcher

    @property
    def actor(self) -> Actor:
        return Actor(self.control, self.launcher)

    @cached_property
    def observer(self) -> Observer:
        return Observer(self.control, self.environment, self.launcher)

    def observe(self, stream: str) -> Observation:
        (seen,) = self.observer.observe(read_catalog(), [stream])
        return seen

    def plan(self, stream: Stream, approvals: Approvals) -> tuple[World, StartPlan]:
        return plan_now(stream, self.environment, self.control, approvals)
