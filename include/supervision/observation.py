"""What was seen of one stream at one moment: plain values, from which `decide` makes a state and an act."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from include.contract.catalog import Stream
from include.control.desired import Desired, Pause
from include.control.drivers import Batch, Ended, Launched


@dataclass(frozen=True)
class Driver:
    """A launch that has not ended, and whether its process is there. None: it runs on a host that we cannot look into."""

    launched: Launched
    alive: bool | None
    adopted: bool  # every sink carries its generation

    @property
    def detached(self) -> bool:
        return self.launched.process is None or self.launched.process.detached


@dataclass(frozen=True)
class Lag:
    """Between the lowest tidemark and the end of what may be read, in offsets; since when there has been any."""

    starts: dict[int, int]  # the lowest tidemark of each partition
    offsets: int
    since: datetime | None


@dataclass(frozen=True)
class Limits:
    """Of the stream file."""

    stuck_after: timedelta
    records_per_batch: int
    is_stateful: bool = False

    def patience(self, offsets: int) -> timedelta:
        """With a batch that has these offsets besides those that a batch of this stream may have."""
        return self.stuck_after * (1 + offsets / self.records_per_batch)

    @classmethod
    def of(cls, stream: Stream | None) -> "Limits":
        """Without a file nothing is judged by them."""
        if stream is None:
            return cls(timedelta.max, 0)
        spec = stream.spec
        return cls(spec.health.stuck_after, spec.source.max_records_per_batch, spec.is_stateful)


@dataclass(frozen=True)
class Observation:
    stream: str
    now: datetime
    desired: Desired
    pause: Pause | None
    limits: Limits
    drivers: tuple[Driver, ...]  # newest first
    ends: tuple[Ended, ...]  # newest first
    batches: tuple[Batch, ...]  # newest first, of one generation
    newest_generation: int
    lag: Lag | None  # None while Kafka or a sink does not tell
    outage: str | None  # what is down, in a sentence
    unreadable: str = ""  # what is wrong with a sink, in a sentence
    file_note: str = ""  # "changed, applies at the next start", or that there is no file any more

    @property
    def is_wanted(self) -> bool:
        return self.desired.running and self.pause is None

    @property
    def driver(self) -> Driver | None:
        """The newest that lives."""
        return next((driver for driver in self.drivers if driver.alive is not False), None)

    @property
    def starts(self) -> dict[int, int]:
        """Where the batch in hand begins."""
        return self.lag.starts if self.lag else {}

    @property
    def ends_since(self) -> tuple[Ended, ...]:
        """Since a person last said what should be: failures before that are forgiven."""
        return tuple(end for end in self.ends if end.ended_at > self.desired.since)
