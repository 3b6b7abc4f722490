"""What is known of a window, as it is kept with it: what its ledger says, and what was counted again."""

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Segment(_Part):
    """Offsets of one partition that were made into rows by one and the same spec."""

    partition: int
    start: int
    end: int
    spec_hash: str


class Booked(_Part):
    """The ledger's lines of one partition, added up."""

    read: int = 0
    delivered: int = 0
    quarantined: int = 0
    rejected: int = 0
    filtered: int = 0
    superseded: int = 0
    duplicates: int = 0
    late: int = 0
    lost: int = 0

    @property
    def accounted(self) -> int:
        """The right side of the equation; what is lost stands beside it."""
        return sum(value for name, value in self.model_dump().items() if name not in ("read", "lost"))


class Audited(_Part):
    """`findings` are sentences; a window that has one fails."""

    segments: tuple[Segment, ...]
    booked: dict[int, Booked]
    findings: tuple[str, ...] = ()
    gaps: int = 0
    rows_of_others: int = 0


class Counted(_Part):
    """One partition, counted again. Checksums are sums over all rows, so their order does not matter."""

    kafka_read: int = 0
    kafka_good: int = 0  # those that the sink cannot hold among them
    kafka_rejected: int = 0
    kafka_bad: int = 0
    kafka_filtered: int = 0
    kafka_late: int = 0
    kafka_duplicates: int = 0  # where it is told of each record; otherwise among the good ones
    kafka_checksum: str = "0"
    table_rows: int = 0
    table_coordinates: int = 0
    table_checksum: str = "0"
    quarantine_rows: int = 0
    quarantine_coordinates: int = 0
    reject_rows: int = 0


class Difference(_Part):
    """Records of one partition with one and the same trouble; the ranges of the first thousand of them."""

    kind: str
    partition: int
    records: int
    ranges: tuple[tuple[int, int], ...]
    example: str = ""  # the first one's declared key

    def tell(self) -> str:
        spans = ", ".join(f"{start:,}" if end - start == 1 else f"{start:,} to {end - 1:,}" for start, end in self.ranges[:5])
        more = ", ..." if len(self.ranges) > 5 or sum(end - start for start, end in self.ranges) < self.records else ""
        who = f" ({self.example})" if self.example else ""
        return f"{self.records:,} {self.kind} in partition {self.partition}: offset {spans}{more}{who}"


class Measured(_Part):
    counted: dict[int, Counted]
    not_recounted: dict[int, str] = {}  # partitions that Kafka can no longer tell of, and why
    compacted: bool = False  # then Kafka has fewer records than were delivered, and only the ledger tells how many
    keys: int = 0  # rows whose declared key was looked at, and how many keys they have
    distinct_keys: int = 0
    duplicates: int | None = None  # of a stateful stream, counted again; none where that cannot be told
    waiting: int = 0  # offsets that were not delivered when it was measured
    newest_ms: int | None = None  # Kafka's time of the newest delivered record of the window
    measured_ms: int = 0
    differences: tuple[Difference, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def behind_seconds(self) -> float:
        """How old the newest delivered record is while others wait; nothing is behind when none waits."""
        if not self.waiting or self.newest_ms is None:
            return 0.0
        return max(0.0, (self.measured_ms - self.newest_ms) / 1000)
