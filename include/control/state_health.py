"""How a stateful stream's state does, as its driver tells with each batch: how much it holds, and where it stands in event time.

Kept beside the batch's progress; read by `make status`.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg2.extensions import cursor as Cursor


@dataclass(frozen=True)
class OperatorState:
    """Of one stateful operator, over all its partitions."""

    operator: str
    rows: int
    memory_bytes: int
    disk_bytes: int


@dataclass(frozen=True)
class StateHealth:
    watermark_ms: int
    highest_ms: int | None  # the newest event time so far
    operators: tuple[OperatorState, ...]

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, told: dict[str, Any]) -> "StateHealth":
        operators = tuple(OperatorState(**one) for one in told["operators"])
        return cls(told["watermark_ms"], told["highest_ms"], operators)


@dataclass(frozen=True)
class StreamHealth:
    """After the newest batch of a stream."""

    stream: str
    finished_at: datetime
    health: StateHealth


def read_state_health(cursor: Cursor) -> list[StreamHealth]:
    """Of every stream that supervision looks after and whose newest batch told of a state, by name."""
    cursor.execute(
        "SELECT each.stream, last.finished_at, last.state FROM stream_state each CROSS JOIN LATERAL (SELECT finished_at, state"
        " FROM progress WHERE stream = each.stream ORDER BY generation DESC, batch DESC LIMIT 1) last"
        " WHERE last.state IS NOT NULL ORDER BY each.stream"
    )
    return [StreamHealth(stream, finished_at, StateHealth.from_plain(told)) for stream, finished_at, told in cursor.fetchall()]
