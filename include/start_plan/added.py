"""Sinks that others got records without: new ones in a stream that has run, and those that were out of its file (P2). Pure.

A new sink begins where `from` says; one that comes back goes on at its tidemark. How far the others were by then is what it has
*apart* from them: below that it was no party to any batch, so the file as it is now makes its rows. Both are pinned by the
adoption.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from include.contract.exit_class import ExitClass
from include.start_plan.epochs import Epoch, tell_what_ends
from include.start_plan.objection import Objection, Verdict
from include.start_plan.world import World
from include.tidemarks.sink_state import SinkState
from include.topics.topic import TopicState

From = Literal["earliest", "now"] | None
Offsets = Mapping[int, int]
PLACES = {"earliest": "at Kafka's earliest offsets", "now": "where the hindmost of the others is"}


def begin_at(key: From, others: Mapping[str, Offsets], topic: TopicState) -> dict[int, int]:
    """Of a new sink. `earliest` is Kafka's, also if the stream began later: it means what it means in `source.start`."""
    if key == "now":
        return {number: min(offsets[number] for offsets in others.values()) for number in sorted(topic.earliest)}
    return dict(sorted(topic.earliest.items()))


def find_apart(name: str, sinks: Mapping[str, SinkState], adopted: Mapping[str, Offsets]) -> dict[int, int]:
    """Per partition up to where others got records without this sink, if it lacks some of them. No further than they are now:
    one of them may have gone back since it was pinned."""
    mark = sinks[name].tidemark
    without = [adopted[other] for other, state in sinks.items() if _went_on_without(sinks[name], state)]
    found = {}
    for number, own in adopted[name].items():
        end = max([mark.apart.get(number, 0) if mark else 0, *(offsets[number] for offsets in without)])
        end = min(end, max(offsets[number] for offsets in adopted.values()))
        if end > own:
            found[number] = end
    return found


def _went_on_without(one: SinkState, other: SinkState) -> bool:
    """Every start adopts all sinks of its file before its first batch, so a batch's file tells who was a party to it."""
    if one.tidemark is None or other.tidemark is None:
        return other.tidemark is not None
    return bool(other.tidemark.beside) and one.sink not in other.tidemark.beside


def refuse_without_key(sinks: Mapping[str, SinkState], keys: Mapping[str, From]) -> list[Objection]:
    """Some have batches, so this one came later: where it begins is for a person to say."""
    return [
        Objection(
            Verdict.REFUSED,
            ExitClass.CONFIGURATION,
            f"Sink {name} is new, but the stream has run before without it.",
            f"Say in the stream file where it begins: sinks.{name}.from is `earliest` for all that Kafka still has, or `now` for "
            "what the other sinks do not have yet.",
        )
        for name, state in sinks.items()
        if state.tidemark is None and keys.get(name) is None
    ]


def left_in_an_old_epoch(world: World, epoch: Epoch) -> list[Objection]:
    """Out of the file when the topic was made anew: what it lacks of the old topic, nobody has any more."""
    marks = {name: state.tidemark for name, state in world.sinks.items() if state.tidemark}
    ahead = [world.sinks[name] for name, mark in marks.items() if mark.epoch == epoch.number]
    absent = (one for one in world.sinks.values() if any(_went_on_without(one, other) for other in ahead))
    return [
        Objection(
            Verdict.NEEDS_APPROVAL,
            ExitClass.TOPIC_CHANGED,
            f"{tell_what_ends(one.sink, mark, ())} The topic was made anew while it was out of the file: Kafka has id "
            f"{world.topic.topic_id}. How much it lacks of the old one is not known, and can never be delivered to it.",
            f"To let it go on with epoch {epoch.number}, from where that began: recover_stream with mode new_topic (with make "
            f"run: TOPIC_ID={world.topic.topic_id}). Or give it another name and table, and `from: earliest`.",
        )
        for one in absent
        if (mark := marks.get(one.sink)) is not None and mark.epoch < epoch.number
    ]


def tell(
    sinks: Mapping[str, SinkState],
    adopted: Mapping[str, Offsets],
    apart: Mapping[str, Offsets],
    keys: Mapping[str, From],
    epoch: Epoch,
    topic: TopicState,
) -> Iterator[str]:
    for name, state in sinks.items():
        behind = sum(end - adopted[name][number] for number, end in apart[name].items())
        gets = f"{behind:,} offsets that others got without it are delivered to it by the file as it is now." if behind else ""
        if state.tidemark is not None and behind:
            yield f"Sink {name} goes on at its tidemark: {gets}"
        elif state.tidemark is None and (key := keys.get(name)):
            at = ", ".join(f"partition {number} at {offset:,}" for number, offset in adopted[name].items())
            deleted = _deleted(epoch, topic) if key == "earliest" else 0
            never = (
                f"{deleted:,} offsets that the stream began with are deleted from Kafka: it never gets them." if deleted else ""
            )
            yield " ".join(part for part in (f"Sink {name} is new and begins {PLACES[key]}: {at}.", gets, never) if part)


def _deleted(epoch: Epoch, topic: TopicState) -> int:
    return sum(max(0, earliest - epoch.began.get(number, 0)) for number, earliest in topic.earliest.items())
