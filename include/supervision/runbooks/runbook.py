"""What a runbook is: four steps, each a process of its own, with plain values passed between them."""

from typing import Protocol

from include.supervision.ground import Ground
from include.supervision.runbooks.request import Acted, Planned, Request


class Runbook(Protocol):
    """`check` and `plan` read only; `act` does what was planned and nothing else; `verify` waits until it is seen."""

    def check(self, ground: Ground, request: Request) -> str: ...

    def plan(self, ground: Ground, request: Request) -> Planned: ...

    def act(self, ground: Ground, request: Request, planned: Planned, approved_by: str | None) -> Acted: ...

    def verify(self, ground: Ground, request: Request, acted: Acted) -> str: ...
