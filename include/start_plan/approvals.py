"""What a person may accept with one start, and the losses that such an approval is about."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

TakeState = Literal["continue", "restore", "warm_up"]


class ApprovedLoss(BaseModel, frozen=True, extra="forbid"):
    """Covers a loss that begins at `start` or later and ends at `ceiling` or before. Belongs to one launch."""

    partition: int
    start: int
    ceiling: int

    def covers(self, loss: "Loss") -> bool:
        return self.partition == loss.partition and self.start <= loss.start and loss.end <= self.ceiling


class Approvals(BaseModel, frozen=True, extra="forbid"):
    """What a person accepted, with a launch and for this one start."""

    losses: tuple[ApprovedLoss, ...] = ()
    changes: frozenset[tuple[str, int]] = frozenset()  # sink and version of a foreign change that a person accepts
    new_topic: str | None = None  # the id of the topic with which a new epoch may begin
    state: TakeState = "continue"  # from what a stateful stream takes its state (P6)
    forget_through_ms: int | None = None  # events up to this time need not be in that state


@dataclass(frozen=True)
class Loss:
    """Records [start, end) of a partition that the sink has not, and Kafka no longer has."""

    sink: str
    partition: int
    start: int
    end: int
