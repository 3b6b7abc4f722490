"""What a person asked for, and what passes from one step of a runbook to the next. Plain values: steps are processes."""

from dataclasses import asdict, dataclass, field
from typing import Any

from include.contract.errors import TidemarkError


class RequestRefused(TidemarkError):
    """What was asked for cannot be done as things are."""


class PlanIsStale(TidemarkError):
    """The world has changed for the worse since the plan was made."""


class NotVerified(TidemarkError):
    """The act was done, but its effect was not seen."""


@dataclass(frozen=True)
class Request:
    runbook: str
    run: str  # the DAG run's id: asked again by a cleared task, it is the same request
    asked_by: str
    reason: str
    stream: str = ""
    mode: str = ""
    ceilings: dict[int, int] = field(default_factory=dict)
    dry_run: bool = False

    @property
    def id(self) -> str:
        return f"{self.runbook}/{self.run}"


@dataclass(frozen=True)
class Planned:
    """`text` is what a person approves; `approvals` is exactly that, for the driver."""

    text: str
    needs_approval: bool = False
    spec_hash: str = ""  # of the file that was planned for
    approvals: dict[str, Any] = field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Acted:
    touched: list[str]
    untouched: list[str]
    launch: str | None = None

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)
