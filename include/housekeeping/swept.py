"""What one kind of thing came to: the line that a person reads in the task's log."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from include.contract.errors import TidemarkError


class NotAllRemoved(TidemarkError):
    """Some things could not be removed; all others of their kind were."""


@dataclass(frozen=True)
class Swept:
    what: str
    removed: int
    kept: tuple[str, ...]  # each with its reason
    bytes: int | None = None
    failures: tuple[str, ...] = ()

    def line(self, *, dry_run: bool) -> str:
        size = "" if self.bytes is None else f" ({size_of(self.bytes)})"
        return f"{self.what}: {self.removed:,} {'would be removed' if dry_run else 'removed'}{size}; kept: {', '.join(self.kept)}"

    def check(self) -> None:
        if self.failures:
            raise NotAllRemoved(
                f"{len(self.failures)} {self.what} could not be removed: {'; '.join(self.failures[:5])}.",
                state=f"{self.removed:,} others were removed.",
                next_step="Mend the cause, such as the folder's owner, and clear this task.",
            )


def tell(reasons: Iterable[str]) -> tuple[str, ...]:
    """`3 younger than 7 days`, the most frequent reason first."""
    counted = Counter(reasons)
    return tuple(f"{count:,} {reason}" for reason, count in counted.most_common()) or ("none",)


def size_of(count: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def days(retention: timedelta) -> str:
    return f"{retention.total_seconds() / 86400:g} days"
