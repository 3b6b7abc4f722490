"""What may stand against a start."""

from dataclasses import dataclass
from enum import StrEnum

from include.contract.exit_class import ExitClass


class Verdict(StrEnum):
    SAFE = "SAFE"
    NEEDS_APPROVAL = "NEEDS APPROVAL"
    REFUSED = "REFUSED"


@dataclass(frozen=True)
class Objection:
    """One reason not to start as things are, as a sentence with its numbers, and what a person can do about it."""

    verdict: Verdict
    exit_class: ExitClass
    sentence: str
    next_step: str
