"""The start plan as a table: Kafka and the sinks side by side, and the verdict."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from include.contract.exit_class import ExitClass
from include.start_plan.approvals import Approvals, ApprovedLoss
from include.start_plan.objection import Verdict
from include.start_plan.plan import plan_start
from include.start_plan.world import World
from include.tidemarks.note import ADOPTED, Kind, Note, Tidemark
from include.tidemarks.sink_state import ForeignChange, SinkState
from include.topics.topic import TopicState

HASH = "ours"


def topic(earliest: dict[int, int] | None = None, latest: dict[int, int] | None = None) -> TopicState:
    ends = latest or {0: 100, 1: 100}
    return TopicState("id", earliest or {0: 0, 1: 0}, ends, {number: end - 1 for number, end in ends.items()})


def sink(
    name: str = "lake",
    offsets: dict[int, int] | None = None,
    *,
    made_by: str | None = HASH,
    pinned: bool = False,
    topic_id: str = "id",
    epoch: int = 1,
    began: dict[int, int] | None = None,
    changes: tuple[ForeignChange, ...] = (),
    beside: str = "",
    apart: dict[int, int] | None = None,
) -> SinkState:
    """`beside`: names of one letter."""
    mark = Tidemark(
        generation=1, batch=ADOPTED, offsets=offsets or {}, topic_id=topic_id, epoch=epoch, began=began or {},
        beside=tuple(beside), apart=apart or {},
    )  # fmt: skip
    note = Note(
        stream="s", sink=name, kind=Kind.ADOPT, generation=1, owner="o", deployment="d", spec_hash=HASH, looked=1,
        tidemark=mark, made_by=made_by, pinned=pinned,
    )  # fmt: skip
    return SinkState(name, 5, 1, "o", note, changes)


def world(topic: TopicState, *sinks: SinkState) -> World:
    tables = {"quarantine": new("quarantine"), **{state.sink: state for state in sinks}}
    return World(topic, tables.pop("quarantine"), tables)


def old(name: str = "lake", offsets: dict[int, int] | None = None, **more: Any) -> SinkState:
    """A sink that knows another topic than the one that is there."""
    return sink(name, offsets, topic_id="old", **more)


def new(name: str = "lake") -> SinkState:
    return SinkState(name, None, 0, None, None, ())


@dataclass(frozen=True)
class Case:
    topic: TopicState
    sinks: list[SinkState]
    verdict: Verdict
    starts: dict[int, int] | None = None
    says: str = ""
    exit_class: ExitClass | None = None
    start: Literal["earliest", "latest"] = "earliest"
    approvals: Approvals = field(default_factory=Approvals)
    level_under: str | None = None
    epoch: int = 1


LOSS = Approvals(losses=(ApprovedLoss(partition=1, start=10, ceiling=40),))
TOPIC = Approvals(new_topic="id")
DELETED = ForeignChange(7, "DELETE", "removed 1 files with their rows")
CASES = {
    "a first start from earliest": Case(topic({0: 5, 1: 0}), [new()], Verdict.SAFE, {0: 5, 1: 0}),
    "a first start from latest": Case(topic(), [new()], Verdict.SAFE, {0: 99, 1: 99}, start="latest"),
    "adopted but nothing delivered: resolved anew": Case(
        topic({0: 50, 1: 0}), [sink(offsets={0: 5, 1: 0}, made_by=None)], Verdict.SAFE, {0: 50, 1: 0}
    ),
    "adopted after a restore: not resolved anew": Case(
        topic(), [sink(offsets={0: 5, 1: 7}, made_by=None, pinned=True)], Verdict.SAFE, {0: 5, 1: 7}, start="latest"
    ),
    "goes on at the tidemark": Case(topic(), [sink(offsets={0: 40, 1: 60})], Verdict.SAFE, {0: 40, 1: 60}),
    "two sinks: the lower one in each partition": Case(
        topic(), [sink("a", {0: 40, 1: 10}), sink("b", {0: 50, 1: 60})], Verdict.SAFE, {0: 40, 1: 10}
    ),
    "a second sink adopted where the first was pinned": Case(
        topic(), [sink("a", {0: 40, 1: 60}), sink("b", {0: 20, 1: 20}, made_by=None)], Verdict.SAFE, {0: 20, 1: 20}, start="latest"
    ),
    "a new partition begins at 0": Case(topic({0: 0, 1: 0, 2: 0}, {0: 9, 1: 9, 2: 9}), [sink(offsets={0: 9, 1: 9})], Verdict.SAFE, {0: 9, 1: 9, 2: 0}),
    "a new partition that lost its beginning": Case(
        topic({0: 0, 1: 3}), [sink(offsets={0: 40})], Verdict.NEEDS_APPROVAL,
        says="partition 1 up to 0, but Kafka begins at 3: 3 offsets", exit_class=ExitClass.RETENTION_GAP,
    ),
    "retention overtook one partition": Case(
        topic({0: 0, 1: 40}), [sink(offsets={0: 40, 1: 10})], Verdict.NEEDS_APPROVAL, says="30 offsets are lost", exit_class=ExitClass.RETENTION_GAP
    ),
    "that loss is approved": Case(topic({0: 0, 1: 40}), [sink(offsets={0: 40, 1: 10})], Verdict.SAFE, {0: 40, 1: 40}, approvals=LOSS),
    "a smaller loss within the approval": Case(topic({0: 0, 1: 30}), [sink(offsets={0: 40, 1: 20})], Verdict.SAFE, {0: 40, 1: 30}, approvals=LOSS),
    "a loss above the ceiling": Case(topic({0: 0, 1: 41}), [sink(offsets={0: 40, 1: 10})], Verdict.NEEDS_APPROVAL, says="31 offsets", approvals=LOSS),
    "a loss that begins earlier": Case(topic({0: 0, 1: 40}), [sink(offsets={0: 40, 1: 9})], Verdict.NEEDS_APPROVAL, says="31 offsets", approvals=LOSS),
    "a loss beside somebody's change is told too": Case(
        topic({0: 0, 1: 40}), [sink(offsets={0: 40, 1: 10}, changes=(DELETED,))], Verdict.NEEDS_APPROVAL, says="30 offsets"
    ),
    "another topic id": Case(
        topic(), [old(offsets={0: 4, 1: 7000})], Verdict.NEEDS_APPROVAL, epoch=2, exit_class=ExitClass.TOPIC_CHANGED,
        says="made anew: Kafka has id id. Sink lake holds partition 0 up to 4, 1 up to 7,000 of id old.",
    ),
    "another topic id, and another one approved": Case(
        topic(), [old(offsets={0: 4})], Verdict.NEEDS_APPROVAL, says="made anew", approvals=Approvals(new_topic="old"), epoch=2
    ),
    "another topic id, approved: its own beginning": Case(
        topic({0: 5, 1: 0}), [old(offsets={0: 400, 1: 2, 2: 9})], Verdict.SAFE, {0: 5, 1: 0}, approvals=TOPIC, epoch=2
    ),
    "another topic id, approved: its own end": Case(
        topic(), [old(offsets={0: 400})], Verdict.SAFE, {0: 99, 1: 99}, start="latest", approvals=TOPIC, epoch=2
    ),
    "uneven in a topic that is gone: what is lacking is told": Case(
        topic(), [old("a", {0: 4, 1: 9}), old("b", {0: 9, 1: 4})], Verdict.NEEDS_APPROVAL, epoch=2,
        says="of id old. It lacks 5 offsets of partition 0 of id old, which another sink has: they can never be delivered to it. Sink b",
    ),
    "uneven in a topic that is gone, approved: level in the new one": Case(
        topic(), [old("a", {0: 4, 1: 9}, made_by="old"), old("b", {0: 9, 1: 4}, made_by="old")], Verdict.SAFE, {0: 0, 1: 0}, approvals=TOPIC, epoch=2
    ),
    "one sink in an epoch that another never saw: what is lacking is told": Case(
        topic(), [old("a", {0: 40}), sink("b", {0: 30}, topic_id="between", epoch=2, began={0: 10})], Verdict.NEEDS_APPROVAL, epoch=3,
        says="of id old. It lacks 20 offsets of partition 0 of id between, which",
    ),
    "one sink has begun the epoch, the other not yet": Case(
        topic(), [sink("a", {0: 20, 1: 30}, epoch=2, began={0: 20, 1: 30}), old("b", {0: 70})], Verdict.SAFE, {0: 20, 1: 30}, start="latest", epoch=2
    ),
    "one sink has delivered in the epoch, the other begins where it began": Case(
        topic(), [sink("a", {0: 60, 1: 30}, epoch=2, began={0: 20}), old("b", {0: 70})], Verdict.SAFE, {0: 20, 1: 0}, start="latest", epoch=2
    ),
    "one sink has delivered in the epoch under another spec": Case(
        topic(), [sink("a", {0: 60}, epoch=2, made_by="other"), old("b", {0: 70})], Verdict.SAFE, {0: 0, 1: 0}, level_under="other", epoch=2
    ),
    "only the quarantine has begun the epoch": Case(
        topic(), [sink("quarantine", epoch=2, began={0: 20}), old(offsets={0: 70})], Verdict.SAFE, {0: 20, 1: 0}, start="latest", epoch=2
    ),
    "retention overtook the beginning of the epoch": Case(
        topic({0: 50, 1: 0}), [sink("a", {0: 20}, epoch=2, began={0: 20}), old("b", {0: 70})], Verdict.NEEDS_APPROVAL, epoch=2,
        says="partition 0 up to 20, but Kafka begins at 50: 30 offsets", exit_class=ExitClass.RETENTION_GAP,
    ),
    "goes on in a later epoch": Case(topic(), [sink(offsets={0: 40, 1: 60}, epoch=7)], Verdict.SAFE, {0: 40, 1: 60}, epoch=7),
    "a tidemark above Kafka's end, in a later epoch and approved": Case(
        topic(), [sink(offsets={0: 101}, epoch=2)], Verdict.REFUSED, says="Kafka ends at 100", approvals=TOPIC, epoch=2
    ),
    "a sink added with the new epoch": Case(
        topic(), [old("a", {0: 4}), new("b")], Verdict.REFUSED, says="Sink b is new", approvals=TOPIC, epoch=2
    ),
    "made anew before anything was delivered: no approval, but another epoch": Case(
        topic(), [old(offsets={0: 4}, made_by=None)], Verdict.SAFE, {0: 0, 1: 0}, epoch=2
    ),
    "a tidemark above Kafka's end": Case(topic(), [sink(offsets={0: 101})], Verdict.REFUSED, says="holds partition 0 up to 101, but Kafka ends at 100", exit_class=ExitClass.TOPIC_CHANGED),
    "a partition that is gone": Case(topic({0: 0}, {0: 100}), [sink(offsets={0: 4, 1: 4})], Verdict.REFUSED, says="Kafka ends at 0"),
    "a sink added later": Case(topic(), [sink("a", {0: 4}), new("b")], Verdict.REFUSED, says="Sink b is new", exit_class=ExitClass.CONFIGURATION),
    "uneven, made by another spec": Case(
        topic(), [sink("a", {0: 4}, made_by="old"), sink("b", {0: 9}, made_by="old")], Verdict.SAFE, {0: 4, 1: 0}, level_under="old"
    ),
    "uneven, the foremost made by ours": Case(topic(), [sink("a", {0: 4}, made_by="old"), sink("b", {0: 9})], Verdict.SAFE, {0: 4, 1: 0}),
    "uneven, none is ahead everywhere, but one spec made all": Case(
        topic(), [sink("a", {0: 4, 1: 9}), sink("b", {0: 9, 1: 4})], Verdict.SAFE, {0: 4, 1: 4}
    ),
    "uneven, none is ahead everywhere": Case(
        topic(), [sink("a", {0: 4, 1: 9}, made_by="old"), sink("b", {0: 9, 1: 4})], Verdict.REFUSED, says="none of them is ahead"
    ),
    "even, made by another spec": Case(topic(), [sink("a", {0: 4}, made_by="old"), sink("b", {0: 4}, made_by="old")], Verdict.SAFE, {0: 4, 1: 0}),
    "a foreign change": Case(topic(), [sink(offsets={0: 4}, changes=(DELETED,))], Verdict.NEEDS_APPROVAL, says="Somebody's DELETE", exit_class=ExitClass.SINK_WENT_BACK),
    "an accepted foreign change": Case(
        topic(), [sink(offsets={0: 4}, changes=(DELETED,))], Verdict.SAFE, {0: 4, 1: 0}, approvals=Approvals(changes=frozenset({("lake", 7)}))
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_plan_of(case: Case) -> None:
    plan = plan_start(world(case.topic, *case.sinks), case.start, case.approvals, HASH)
    assert plan.verdict is case.verdict, plan.objections
    assert plan.level_under == case.level_under
    assert plan.epoch.number == case.epoch
    if case.starts is not None:
        assert plan.starts == case.starts
    if case.says:
        assert case.says in " ".join(objection.sentence for objection in plan.objections)
    if case.exit_class:
        assert plan.objections[0].exit_class is case.exit_class


def test_losses_are_told_per_sink_and_partition() -> None:
    plan = plan_start(world(topic({0: 0, 1: 40}), sink(offsets={0: 40, 1: 10})), "earliest", LOSS, HASH)
    assert [(loss.sink, loss.partition, loss.start, loss.end) for loss in plan.losses] == [("lake", 1, 10, 40)]
    assert plan.adopted == {"lake": {0: 40, 1: 40}}


def test_a_sink_that_has_delivered_in_the_epoch_keeps_its_tidemark_there() -> None:
    ahead, behind = sink("a", {0: 60, 1: 30}, epoch=2, began={0: 20}), old("b", {0: 70, 1: 70})
    plan = plan_start(world(topic(), ahead, behind), "earliest", Approvals(), HASH)
    assert plan.adopted == {"a": {0: 60, 1: 30}, "b": {0: 20, 1: 0}}
