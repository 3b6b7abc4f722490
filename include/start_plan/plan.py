"""Plans the start of a stateless stream (P2): where it begins, what each sink adopts, and what stands against it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from include.contract.exit_class import ExitClass
from include.contract.identity import QUARANTINE
from include.start_plan.approvals import Approvals, Loss
from include.start_plan.epochs import Epoch, find_epoch, tell_what_ends, within
from include.start_plan.world import World
from include.tidemarks.sink_state import SinkState
from include.topics.topic import TopicState


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


@dataclass(frozen=True)
class StartPlan:
    epoch: Epoch
    is_first: bool  # nothing was ever delivered: the offsets may be resolved anew by the next start
    adopted: Mapping[str, dict[int, int]]  # per sink: the offsets its tidemark will have
    losses: tuple[Loss, ...]
    objections: tuple[Objection, ...]
    level_under: str | None = None  # the spec that must first bring every sink to where the foremost is

    @property
    def highest(self) -> dict[int, int]:
        """Per partition the highest of the sinks' tidemarks."""
        return {number: max(offsets.get(number, 0) for offsets in self.adopted.values()) for number in self.starts}

    @property
    def starts(self) -> dict[int, int]:
        """Per partition the lowest of the sinks' tidemarks."""
        partitions = sorted({partition for offsets in self.adopted.values() for partition in offsets})
        return {number: min(offsets.get(number, 0) for offsets in self.adopted.values()) for number in partitions}

    @property
    def verdict(self) -> Verdict:
        found = {objection.verdict for objection in self.objections}
        return next((verdict for verdict in (Verdict.REFUSED, Verdict.NEEDS_APPROVAL) if verdict in found), Verdict.SAFE)


def plan_start(world: World, start: Literal["earliest", "latest"], approvals: Approvals, spec_hash: str) -> StartPlan:
    topic = world.topic
    first = topic.earliest if start == "earliest" else topic.stable
    epoch = find_epoch(world, first)
    changed = (*_changed(world.sinks, approvals), *_quarantine(world, approvals))
    if not any(state.is_pinned for state in world.sinks.values()):  # resolved anew until a first batch is committed
        return StartPlan(replace(epoch, began=first), True, {name: dict(first) for name in world.sinks}, (), changed)
    sinks = {name: within(epoch, state) for name, state in world.sinks.items()}
    losses = tuple(loss for state in sinks.values() for loss in _losses(state, topic))
    made_anew = _made_anew(world, start) if epoch.is_new and approvals.new_topic != topic.topic_id else ()
    other_topic = (*made_anew, *_above_the_end(sinks, topic))
    gaps = tuple(_gap(loss) for loss in losses if not any(one.covers(loss) for one in approvals.losses))
    objections = (*other_topic, *_added(sinks), *_uneven(sinks, spec_hash), *changed, *(() if other_topic else gaps))
    adopted = {name: _adopted(state, topic) for name, state in sinks.items()}
    return StartPlan(epoch, False, adopted, losses, objections, _level_under(sinks, spec_hash))


def _adopted(state: SinkState, topic: TopicState) -> dict[int, int]:
    return {number: max(_next(state, number), earliest) for number, earliest in sorted(topic.earliest.items())}


def _losses(state: SinkState, topic: TopicState) -> list[Loss]:
    there = {number: (_next(state, number), earliest) for number, earliest in sorted(topic.earliest.items())}
    return [Loss(state.sink, number, start, end) for number, (start, end) in there.items() if start < end]


def _next(state: SinkState, partition: int) -> int:
    return state.tidemark.next_offset(partition) if state.tidemark else 0


def _made_anew(world: World, start: str) -> tuple[Objection, ...]:
    """P1.6. Where the old topic ended nobody can say any more, so its offsets are told as the sinks know them."""
    marks = {name: state.tidemark for name, state in world.sinks.items() if state.tidemark}
    ended = " ".join(tell_what_ends(name, mark, marks.values()) for name, mark in marks.items())
    there = world.topic.topic_id
    next_step = (
        f"To deliver the new topic from its {start} offset on, as an epoch of its own beside the rows of the old one: "
        f"recover_stream with mode new_topic (with make run: TOPIC_ID={there}). "
        "To keep them apart, give it a stream file and a table of their own."
    )
    said = f"The topic was made anew: Kafka has id {there}. {ended}"
    return (Objection(Verdict.NEEDS_APPROVAL, ExitClass.TOPIC_CHANGED, said, next_step),)


def _above_the_end(sinks: Mapping[str, SinkState], topic: TopicState) -> list[Objection]:
    """The id is the same, but the topic was restored from an older copy of the broker's disks."""
    return [
        Objection(
            Verdict.REFUSED,
            ExitClass.TOPIC_CHANGED,
            f"Sink {name} holds partition {number} up to {held:,}, but Kafka ends at {end:,}.",
            "Give the topic a stream file and a table of their own: its records are not those that the sink goes on from.",
        )
        for name, state in sinks.items()
        for number, held in sorted(state.tidemark.offsets.items() if state.tidemark else ())
        if held > (end := topic.latest.get(number, 0))
    ]


def _added(sinks: Mapping[str, SinkState]) -> list[Objection]:
    """Some have batches, so this one came later: where it begins is for a person to say."""
    return [
        Objection(
            Verdict.REFUSED,
            ExitClass.CONFIGURATION,
            f"Sink {name} is new, but the stream has run before without it.",
            "Give the sink a stream file of its own, which begins at its `source.start`.",
        )
        for name, state in sinks.items()
        if state.note is None
    ]


def _uneven(sinks: Mapping[str, SinkState], spec_hash: str) -> tuple[Objection, ...]:
    """Where specs differ, one sink must be the foremost in every partition: its spec made the rows that the others still lack."""
    is_ours_alone = all(state.note.made_by in (None, spec_hash) for state in sinks.values() if state.note)
    if not is_ours_alone and not _are_level(sinks) and _foremost(sinks) is None:
        said = "The sinks end at different offsets, and none of them is ahead in every partition."
        next_step = "RESTORE the tables to versions of one batch (DESCRIBE HISTORY shows them), then start again."
        return (Objection(Verdict.REFUSED, ExitClass.CONFIGURATION, said, next_step),)
    return ()


def _level_under(sinks: Mapping[str, SinkState], spec_hash: str) -> str | None:
    """Records between two tidemarks are made into rows by one and the same spec, whatever the file says now."""
    foremost = None if _are_level(sinks) else _foremost(sinks)
    made_by = foremost.note.made_by if foremost and foremost.note else None
    return made_by if made_by != spec_hash else None


def _are_level(sinks: Mapping[str, SinkState]) -> bool:
    marks = [state.tidemark for state in sinks.values() if state.tidemark]
    return all(one.covers(other.offsets) for one in marks for other in marks)


def _foremost(sinks: Mapping[str, SinkState]) -> SinkState | None:
    marks = [state.tidemark for state in sinks.values() if state.tidemark]
    ahead = (state for state in sinks.values() if state.tidemark and all(state.tidemark.covers(one.offsets) for one in marks))
    return next(ahead, None)


def _changed(sinks: Mapping[str, SinkState], approvals: Approvals) -> tuple[Objection, ...]:
    return tuple(
        Objection(
            Verdict.NEEDS_APPROVAL,
            ExitClass.SINK_WENT_BACK,
            change.in_(f"sink {name}"),
            f"RESTORE the table to version {change.version - 1} to undo it; or leave the rows as they are: recover_stream with "
            f"mode accept_change (with make run: ACCEPT={name}:{change.version}).",
        )
        for name, state in sinks.items()
        for change in state.changes
        if (name, change.version) not in approvals.changes
    )


def _quarantine(world: World, approvals: Approvals) -> tuple[Objection, ...]:
    """P3.3. Nobody may have taken rows out of it, and each sink's commit names the quarantine it was made with."""
    kept = world.quarantine
    there = (kept.tidemark.generation, kept.tidemark.batch) if kept.tidemark else (0, 0)
    named = {name: state.note.quarantine for name, state in world.sinks.items() if state.note and state.note.quarantine}
    return (
        *_changed({QUARANTINE: kept}, approvals),
        *(
            Objection(
                Verdict.REFUSED,
                ExitClass.SINK_WENT_BACK,
                f"Sink {name} was committed when the quarantine had batch {batch} of generation {generation}; "
                f"now it ends at batch {there[1]} of generation {there[0]}: bad records may be missing from it.",
                "RESTORE the quarantine's table to a version that has that batch, or bring it back from a backup.",
            )
            for name, (generation, batch) in sorted(named.items())
            if (generation, batch) > there
        ),
    )


def _gap(loss: Loss) -> Objection:
    said = (
        f"Sink {loss.sink} holds partition {loss.partition} up to {loss.start:,}, but Kafka begins at {loss.end:,}: "
        f"{loss.end - loss.start:,} offsets are lost."
    )
    by_hand = f"APPROVE={loss.partition}:{loss.start}:{loss.end}"
    next_step = f"To go on without them: recover_stream with mode accept_loss (with make run: {by_hand})."
    return Objection(Verdict.NEEDS_APPROVAL, ExitClass.RETENTION_GAP, said, next_step)
