"""The journal: every act on a stream, with who, why, before and after. Rows are added, and expire; none is changed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg2.extensions import cursor as Cursor
from psycopg2.extras import Json

EVERY_STREAM = "*"  # a pause is about all of them


@dataclass(frozen=True)
class Entry:
    at: datetime
    stream: str
    generation: int | None
    actor: str
    event: str
    detail: dict[str, Any]

    def line(self) -> str:
        told = ", ".join(f"{name}: {value}" for name, value in self.detail.items() if value not in (None, "", {}, []))
        generation = f" generation {self.generation}" if self.generation else ""
        return f"{self.at:%Y-%m-%d %H:%M:%S}  {self.stream}{generation}  {self.event} by {self.actor}" + (
            f"  ({told})" if told else ""
        )


def write_journal(cursor: Cursor, stream: str, event: str, *, actor: str, generation: int | None = None, **detail: Any) -> None:
    cursor.execute(
        "INSERT INTO journal (stream, generation, actor, event, detail) VALUES (%s, %s, %s, %s, %s)",
        [stream, generation, actor, event, Json(detail)],
    )


def read_journal(cursor: Cursor, stream: str, newest: int) -> list[Entry]:
    """Oldest first, the newest so many; with what was done to all streams at once."""
    cursor.execute(
        "SELECT at, stream, generation, actor, event, detail FROM journal WHERE stream IN (%s, %s) ORDER BY id DESC LIMIT %s",
        [stream, EVERY_STREAM, newest],
    )
    return [Entry(*row) for row in reversed(cursor.fetchall())]
