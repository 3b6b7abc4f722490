"""Plans the start of a stream (P2): where it begins, what each sink adopts, and what stands against it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from include.contract.exit_class import ExitClass
from include.contract.identity import QUARANTINE
from include.start_plan.added import From, begin_at, find_apart, left_in_an_old_epoch, refuse_without_key, tell
from include.start_plan.approvals import Approvals, Loss
from include.start_plan.epochs import Epoch, find_epoch, tell_what_ends, within
from include.start_plan.levels import find_uneven, highest_of, level_under, uneven_partitions
from include.start_plan.objection import Objection, Verdict
from include.start_plan.state_plan import Needs, StatePlan, Way, plan_state
from include.start_plan.state_seen import StateSeen
from include.start_plan.world import World
from include.tidemarks.note import EventClock, Tidemark
from include.tidemarks.sink_state import SinkState
from include.topics.topic import TopicState

NO_KEYS: Mapping[str, From] = {}


@dataclass(frozen=True)
class StartPlan:
    epoch: Epoch
    is_first: bool  # nothing was ever delivered: the offsets may be resolved anew by the next start
    adopted: Mapping[str, dict[int, int]]  # per sink: the offsets its tidemark will have
    losses: tuple[Loss, ...]
    objections: tuple[Objection, ...]
    level_under: str | None = None  # the spec that must first bring every sink to where the foremost is
    apart: Mapping[str, dict[int, int]] = field(default_factory=dict)  # per sink: up to where others got what it lacks without it
    told: tuple[str, ...] = ()  # what a person should know of a sink that is new or comes back
    state: StatePlan | None = None  # of a stateful stream

    @property
    def highest(self) -> dict[int, int]:
        """Per partition the highest of the sinks' tidemarks."""
        return highest_of(self.adopted)

    @property
    def starts(self) -> dict[int, int]:
        """Per partition the lowest of the sinks' tidemarks."""
        partitions = sorted({partition for offsets in self.adopted.values() for partition in offsets})
        return {number: min(offsets.get(number, 0) for offsets in self.adopted.values()) for number in partitions}

    @property
    def uneven(self) -> list[int]:
        """The partitions in which a sink lacks records of a batch to which it was a party."""
        return uneven_partitions(self.adopted, self.apart)

    @property
    def verdict(self) -> Verdict:
        found = {objection.verdict for objection in self.objections}
        return next((verdict for verdict in (Verdict.REFUSED, Verdict.NEEDS_APPROVAL) if verdict in found), Verdict.SAFE)


def plan_start(
    world: World,
    start: Literal["earliest", "latest"],
    approvals: Approvals,
    spec_hash: str,
    keys: Mapping[str, From] = NO_KEYS,
    needs: Needs | None = None,
) -> StartPlan:
    """`keys`: what the file says of each sink under `from`; `needs`: of a stateful stream."""
    plan = _plan_offsets(world, start, approvals, spec_hash, keys)
    return plan if needs is None or world.state is None else _with_state(plan, world, needs, approvals)


def _with_state(plan: StartPlan, world: World, needs: Needs, approvals: Approvals) -> StartPlan:
    """Rows of an older file cannot be made again without the state that made them: nothing is levelled here."""
    marks = {
        name: _as_counted(state.tidemark, plan.epoch)
        for name, state in world.sinks.items()
        if state.tidemark is not None and not plan.is_first
    }
    seen, earliest = world.state or StateSeen(), world.topic.earliest
    state = plan_state(needs, seen, plan.epoch.number, marks, plan.adopted, earliest, approvals.forget_through_ms)
    uneven = (_uneven_under_another_file(),) if plan.level_under is not None else ()
    no_backup = (_no_backup(),) if approvals.state == "restore" and state.way is not Way.CONTINUE else ()
    objections = (*plan.objections, *uneven, *no_backup, *state.objections)
    return replace(plan, state=state, level_under=None, objections=objections, told=(*plan.told, *state.told))


def _as_counted(mark: Tidemark, epoch: Epoch) -> Tidemark:
    """A topic that was made anew has none of the events of the old one: what windows held of these stays as it is."""
    if mark.epoch == epoch.number:
        return mark
    forgotten = mark.clock.highest_ms if mark.clock else None
    clock = EventClock(watermark_ms=0, late_ms=0, forgotten_ms=forgotten) if mark.clock else None
    return mark.model_copy(update={"epoch": epoch.number, "offsets": dict(epoch.began), "clock": clock})


def _no_backup() -> Objection:
    """Who asks for a backup does not mean a warm-up, which is what a start would do without one."""
    said = "There is no backup from which the stream could go on."
    next_step = "Use mode continue, or warm_up to have the state made again from Kafka (with make run: STATE=)."
    return Objection(Verdict.REFUSED, ExitClass.CONFIGURATION, said, next_step)


def _uneven_under_another_file() -> Objection:
    said = "The sinks end with different batches, and the file has changed since: another file's state cannot make the rest."
    next_step = "Put the stream file back as it was, run it with ONCE=1, then change it."
    return Objection(Verdict.REFUSED, ExitClass.CONFIGURATION, said, next_step)


def _plan_offsets(
    world: World,
    start: Literal["earliest", "latest"],
    approvals: Approvals,
    spec_hash: str,
    keys: Mapping[str, From],
) -> StartPlan:
    topic = world.topic
    first = topic.earliest if start == "earliest" else topic.stable
    epoch = find_epoch(world, first)
    changed = (*_changed(world.sinks, approvals), *_quarantine(world, approvals))
    if not any(state.is_pinned for state in world.sinks.values()):  # resolved anew until a first batch is committed
        offsets = {name: dict(first) for name in world.sinks}
        return StartPlan(replace(epoch, began=first), True, offsets, (), changed, told=_no_effect(start, keys))
    sinks = {name: within(epoch, state) for name, state in world.sinks.items()}
    adopted = _adopt_all(sinks, topic, keys)
    apart = {name: find_apart(name, sinks, adopted) for name in sinks}
    uneven = uneven_partitions(adopted, apart)
    losses = tuple(loss for state in sinks.values() if state.tidemark for loss in _losses(state, topic))
    other_topic = (*_other_topic(world, epoch, start, approvals), *_above_the_end(sinks, topic))
    gaps = tuple(_gap(loss) for loss in losses if not any(one.covers(loss) for one in approvals.losses))
    stands = (*other_topic, *refuse_without_key(sinks, keys), *find_uneven(sinks, adopted, uneven, spec_hash), *changed)
    objections = (*stands, *(() if other_topic else gaps))
    level = level_under(sinks, adopted, uneven, spec_hash)
    told = tuple(tell(sinks, adopted, apart, keys, epoch, topic))
    return StartPlan(epoch, False, adopted, losses, objections, level, apart, told)


def _no_effect(start: str, keys: Mapping[str, From]) -> tuple[str, ...]:
    """A file that was written for a stream that has run elsewhere is no reason not to start here."""
    named = ", ".join(sorted(name for name, key in keys.items() if key))
    return (f"No sink has a record yet: `from` of {named} has no effect, all begin at source.start, {start}.",) if named else ()


def _adopt_all(sinks: Mapping[str, SinkState], topic: TopicState, keys: Mapping[str, From]) -> dict[str, dict[int, int]]:
    known = {name: _adopted(state, topic) for name, state in sinks.items() if state.tidemark}
    return {name: known.get(name) or begin_at(keys.get(name), known, topic) for name in sinks}


def _adopted(state: SinkState, topic: TopicState) -> dict[int, int]:
    return {number: max(_next(state, number), earliest) for number, earliest in sorted(topic.earliest.items())}


def _losses(state: SinkState, topic: TopicState) -> list[Loss]:
    there = {number: (_next(state, number), earliest) for number, earliest in sorted(topic.earliest.items())}
    return [Loss(state.sink, number, start, end) for number, (start, end) in there.items() if start < end]


def _next(state: SinkState, partition: int) -> int:
    return state.tidemark.next_offset(partition) if state.tidemark else 0


def _other_topic(world: World, epoch: Epoch, start: str, approvals: Approvals) -> tuple[Objection, ...]:
    if approvals.new_topic == world.topic.topic_id:
        return ()
    return _made_anew(world, start) if epoch.is_new else tuple(left_in_an_old_epoch(world, epoch))


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
