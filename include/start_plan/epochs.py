"""Which epoch of its topic a start is in (P1.6): epochs belong to topic ids, and offsets are compared within one only. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from include.start_plan.world import World
from include.tidemarks.note import Tidemark
from include.tidemarks.sink_state import SinkState


@dataclass(frozen=True)
class Epoch:
    number: int
    began: Mapping[int, int]  # where this stream began to read it
    is_new: bool  # the topic's id is not that of the newest epoch of any table


def find_epoch(world: World, first: Mapping[int, int]) -> Epoch:
    """The quarantine counts too: it is adopted before every sink, and keeps what a sink's RESTORE takes away."""
    marks = [state.tidemark for state in (world.quarantine, *world.sinks.values()) if state.tidemark]
    newest = max(marks, key=lambda mark: mark.epoch, default=None)
    if newest is not None and newest.topic_id == world.topic.topic_id:
        return Epoch(newest.epoch, newest.began, is_new=False)
    return Epoch(1 + (newest.epoch if newest else 0), first, is_new=True)


def within(epoch: Epoch, state: SinkState) -> SinkState:
    """As it counts in this epoch: a sink that is still in another one has nothing of it, and begins where the epoch began."""
    if state.note is None or state.tidemark is None or state.tidemark.epoch == epoch.number:
        return state
    begins = state.tidemark.model_copy(update={"epoch": epoch.number, "offsets": dict(epoch.began), "apart": {}})
    return replace(state, note=state.note.model_copy(update={"tidemark": begins}))


def tell_what_ends(sink: str, mark: Tidemark, all_marks: Iterable[Tidemark]) -> str:
    """What a sink has of a topic that is gone, and what it lacks although another sink has it."""
    held = ", ".join(f"{number} up to {end:,}" for number, end in sorted(mark.offsets.items()))
    lacking = _lacking(mark, all_marks)
    lacks = ", ".join(f"{count:,} offsets of partition {number} of id {topic}" for (topic, number), count in lacking.items())
    told = f"Sink {sink} holds partition {held} of id {mark.topic_id}."
    return f"{told} It lacks {lacks}, which another sink has: they can never be delivered to it." if lacks else told


def _lacking(mark: Tidemark, all_marks: Iterable[Tidemark]) -> dict[tuple[str, int], int]:
    """Offsets per topic id and partition."""
    lacking: dict[tuple[str, int], int] = {}
    for other in (other for other in all_marks if other.epoch >= mark.epoch):
        held = mark.offsets if other.epoch == mark.epoch else other.began
        for number, end in sorted(other.offsets.items()):
            place, ahead = (other.topic_id, number), end - held.get(number, 0)
            if ahead > lacking.get(place, 0):
                lacking[place] = ahead
    return lacking
