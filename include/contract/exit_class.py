"""How a driver may end: each class has one exit code and one next step, and every failure that ends a stream has a class."""

from enum import Enum
from typing import Any

from include.contract.errors import TidemarkError


class ExitClass(Enum):
    """Name, exit code, and what the person on call does next. Codes below 10 are left to Python and the shell.

    A driver that was killed, or was stuck and had to be, cannot say so itself: supervision writes it down.
    """

    STOPPED = ("stopped", 0, "Start the stream again whenever you like.")
    UNKNOWN = ("unknown", 1, "Read the driver's log: this failure has no class yet.")
    CONFIGURATION = ("configuration", 10, "Mend the stream file or the environment, then start the stream again.")
    INFRASTRUCTURE = ("infrastructure", 11, "Bring back what is down; then start the stream again, it goes on by itself.")
    POISON = ("poison", 12, "Look at the record that is named, then mend the stream file or the producer.")
    SCHEMA = ("schema", 13, "Make the table and the stream file agree, then start the stream again.")
    RETENTION_GAP = ("retention gap", 14, "Decide about the lost records, then start with an approval of exactly this loss.")
    SINK_WENT_BACK = ("sink went back", 15, "Find out who changed the table, then start the stream again.")
    TOPIC_CHANGED = ("topic changed", 16, "Find out who made the topic anew; the next start says how to go on with it.")
    CHECKPOINT_DAMAGE = (
        "checkpoint damage",
        17,
        "Start the stream again: it begins a new folder; a state comes from one that is whole, or from Kafka.",
    )
    FENCED = ("fenced", 18, "Nothing, if a newer driver runs; otherwise another deployment writes here.")
    OUT_OF_MEMORY = ("out of memory", 19, "Lower source.max_records_per_batch or raise spark.driver_memory, then start again.")
    KILLED = ("killed", 20, "If nobody killed it, look for the kernel's out-of-memory killer: `dmesg | grep -i oom`.")
    STUCK = ("stuck", 21, "Read the driver's log: what does it wait for? Kafka, the lake's disk and the sinks come first.")

    def __init__(self, title: str, code: int, next_step: str) -> None:
        self.title = title
        self.code = code
        self.next_step = next_step


class StreamFailure(TidemarkError):
    """A failure that ends a stream. Evidence is what a person or a runbook looks at: partition, offset, version, counts."""

    exit_class: ExitClass = ExitClass.UNKNOWN

    def __init__(self, happened: str, *, state: str, next_step: str | None = None, **evidence: Any) -> None:
        super().__init__(happened, state=state, next_step=next_step or self.exit_class.next_step)
        self.evidence = evidence
