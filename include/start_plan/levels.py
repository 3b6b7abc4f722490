"""Whether sinks are uneven, and by which spec they must be levelled first (P2). Pure.

A sink counts as far as it is *apart*: what others got without it is not theirs to level.
"""

from collections.abc import Mapping

from include.contract.exit_class import ExitClass
from include.start_plan.objection import Objection, Verdict
from include.tidemarks.sink_state import SinkState

Offsets = Mapping[int, int]


def highest_of(adopted: Mapping[str, Offsets]) -> dict[int, int]:
    partitions = sorted({number for offsets in adopted.values() for number in offsets})
    return {number: max(offsets.get(number, 0) for offsets in adopted.values()) for number in partitions}


def uneven_partitions(adopted: Mapping[str, Offsets], apart: Mapping[str, Offsets]) -> list[int]:
    """Where a sink lacks records of a batch to which it was a party."""
    return [
        number
        for number, end in highest_of(adopted).items()
        if any(max(offsets.get(number, 0), apart.get(name, {}).get(number, 0)) < end for name, offsets in adopted.items())
    ]


def find_uneven(
    sinks: Mapping[str, SinkState], adopted: Mapping[str, Offsets], partitions: list[int], spec_hash: str
) -> tuple[Objection, ...]:
    """Where specs differ, one sink must be the foremost in every partition: its spec made the rows that the others still lack."""
    is_ours_alone = all(state.note.made_by in (None, spec_hash) for state in sinks.values() if state.note)
    if not is_ours_alone and partitions and _foremost(sinks, adopted, partitions) is None:
        said = "The sinks end at different offsets, and none of them is ahead in every partition."
        next_step = "RESTORE the tables to versions of one batch (DESCRIBE HISTORY shows them), then start again."
        return (Objection(Verdict.REFUSED, ExitClass.CONFIGURATION, said, next_step),)
    return ()


def level_under(
    sinks: Mapping[str, SinkState], adopted: Mapping[str, Offsets], partitions: list[int], spec_hash: str
) -> str | None:
    """Records between two tidemarks are made into rows by one and the same spec, whatever the file says now."""
    foremost = _foremost(sinks, adopted, partitions) if partitions else None
    made_by = foremost.note.made_by if foremost and foremost.note else None
    return made_by if made_by != spec_hash else None


def _foremost(sinks: Mapping[str, SinkState], adopted: Mapping[str, Offsets], partitions: list[int]) -> SinkState | None:
    """By what it really holds: how far it is apart counts for nothing here."""
    highest = highest_of(adopted)
    ahead = (
        sinks[name] for name, held in adopted.items() if all(held.get(number, 0) == highest[number] for number in partitions)
    )
    return next((state for state in ahead if state.tidemark), None)
