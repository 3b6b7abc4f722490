"""Sinks that others got records without, as a table: where they begin, and what is and is not levelled because of them (P2)."""

from dataclasses import dataclass, field
from typing import Literal

import pytest

from include.contract.exit_class import ExitClass
from include.start_plan.added import From
from include.start_plan.approvals import Approvals
from include.start_plan.objection import Verdict
from include.start_plan.plan import plan_start
from include.tidemarks.sink_state import SinkState
from include.topics.topic import TopicState
from tests.unit.start_plan.test_plan import HASH, LOSS, TOPIC, new, old, sink, topic, world


@dataclass(frozen=True)
class Case:
    topic: TopicState
    sinks: list[SinkState]
    verdict: Verdict
    adopted: dict[str, dict[int, int]] = field(default_factory=dict)  # of those that matter
    apart: dict[str, dict[int, int]] | None = None
    uneven: list[int] = field(default_factory=list)
    level_under: str | None = None
    says: str = ""
    tells: str = ""
    exit_class: ExitClass | None = None
    keys: dict[str, From] = field(default_factory=dict)
    start: Literal["earliest", "latest"] = "earliest"
    approvals: Approvals = field(default_factory=Approvals)


EARLIEST: dict[str, From] = {"b": "earliest"}
NOW: dict[str, From] = {"b": "now"}
ADDED = {
    "from earliest: all that Kafka has": Case(
        topic({0: 5, 1: 0}), [sink("a", {0: 40, 1: 60}), new("b")], Verdict.SAFE, {"b": {0: 5, 1: 0}}, {"b": {0: 40, 1: 60}}, keys=EARLIEST,
        tells="Sink b is new and begins at Kafka's earliest offsets: partition 0 at 5, partition 1 at 0. 95 offsets that others got "
        "without it are delivered to it by the file as it is now. 5 offsets that the stream began with are deleted from Kafka: it never",
    ),
    "from earliest, in a stream that began at latest": Case(
        topic(), [sink("a", {0: 70, 1: 60}, began={0: 50, 1: 60}), new("b")], Verdict.SAFE, {"b": {0: 0, 1: 0}}, start="latest", keys=EARLIEST
    ),
    "from now: where the hindmost of the others is, in each partition": Case(
        topic(), [sink("a", {0: 40, 1: 60}), new("b"), sink("c", {0: 50, 1: 20})], Verdict.SAFE, {"b": {0: 40, 1: 20}}, uneven=[0, 1], keys=NOW,
        tells="begins where the hindmost of the others is: partition 0 at 40, partition 1 at 20.",
    ),
    "from now, when Kafka has lost what another lacks": Case(
        topic({0: 0, 1: 40}), [sink("a", {0: 40, 1: 10}), new("b")], Verdict.SAFE, {"b": {0: 40, 1: 40}}, {}, keys=NOW, approvals=LOSS
    ),
    "two are added at once": Case(
        topic(), [sink("a", {0: 40, 1: 60}), new("b"), new("c")], Verdict.SAFE, {"b": {0: 40, 1: 60}, "c": {0: 0, 1: 0}}, {"c": {0: 40, 1: 60}},
        keys={"b": "now", "c": "earliest"},
    ),
    "without the key": Case(topic(), [sink("a", {0: 4}), new("b")], Verdict.REFUSED, says="Sink b is new", keys={"b": None}),
    "with the key of another sink": Case(topic(), [sink("a", {0: 4}), new("b")], Verdict.REFUSED, says="Sink b is new", keys={"a": "now"}),
    "a first start: no effect, and told": Case(
        topic(), [new("a"), new("b")], Verdict.SAFE, {"b": {0: 99, 1: 99}}, start="latest", keys=EARLIEST, tells="`from` of b has no effect"
    ),
    "adopted, then a crash before its first batch": Case(
        topic(), [sink("a", {0: 90, 1: 90}, beside="a"), sink("b", {0: 40, 1: 60}, made_by=None, pinned=True)],
        Verdict.SAFE, {"b": {0: 40, 1: 60}}, {"b": {0: 90, 1: 90}}, keys=EARLIEST,
    ),
    "adopted, and the key is gone from the file": Case(
        topic(), [sink("a", {0: 90, 1: 90}, beside="a"), sink("b", {0: 40, 1: 60}, made_by=None, pinned=True)], Verdict.SAFE, {"b": {0: 40, 1: 60}}
    ),
    "retention overtook it since it was adopted": Case(
        topic({0: 30, 1: 0}), [sink("a", {0: 40}, beside="a"), sink("b", {0: 10}, made_by=None, pinned=True)], Verdict.NEEDS_APPROVAL,
        keys=EARLIEST, says="Sink b holds partition 0 up to 10, but Kafka begins at 30: 20 offsets are lost",
    ),
    "beside a topic that was made anew: its earliest": Case(
        topic({0: 5, 1: 0}), [old("a", {0: 400}), new("b")], Verdict.SAFE, {"a": {0: 99, 1: 99}, "b": {0: 5, 1: 0}}, start="latest",
        approvals=TOPIC, keys=EARLIEST,
    ),
    "beside a topic that was made anew: now": Case(
        topic(), [old("a", {0: 4}), new("b")], Verdict.SAFE, {"b": {0: 99, 1: 99}}, start="latest", approvals=TOPIC, keys=NOW
    ),
    "beside a topic that was made anew, which nobody approved": Case(
        topic(), [old("a", {0: 4}), new("b")], Verdict.NEEDS_APPROVAL, says="made anew", keys=NOW
    ),
}  # fmt: skip
APART = {
    "far behind what another spec made without it: not levelled": Case(
        topic(), [sink("a", {0: 90, 1: 90}, made_by="old", beside="a"), sink("b", {0: 10, 1: 10}, made_by=None, pinned=True)],
        Verdict.SAFE, {"b": {0: 10, 1: 10}}, {"b": {0: 90, 1: 90}},
    ),
    "nor when it has batches, under yet another spec": Case(
        topic(), [sink("a", {0: 90}, made_by="old", beside="a"), sink("b", {0: 30}, made_by="older", beside="ab", apart={0: 90})],
        Verdict.SAFE, {"b": {0: 30, 1: 0}}, {"b": {0: 90}},
    ),
    "ahead after a crash in one partition, far behind in the other: the one is levelled": Case(
        topic(), [sink("a", {0: 50, 1: 90}, made_by="old", beside="a"), sink("b", {0: 60, 1: 30}, made_by="newer", beside="ab", apart={1: 90})],
        Verdict.SAFE, {"b": {0: 60, 1: 30}}, {"b": {1: 90}}, uneven=[0], level_under="newer",
    ),
    "the same, and the file is still that which made the batch": Case(
        topic(), [sink("a", {0: 50, 1: 90}, made_by="old", beside="a"), sink("b", {0: 60, 1: 30}, beside="ab", apart={1: 90})],
        Verdict.SAFE, uneven=[0],
    ),
    "the other is ahead, by the batch that was to bring it up": Case(
        topic(), [sink("a", {0: 95, 1: 90}, made_by="newer", beside="ab"), sink("b", {0: 80, 1: 30}, made_by="newer", beside="ab", apart={0: 90, 1: 90})],
        Verdict.SAFE, uneven=[0], level_under="newer",
    ),
    "caught up, then uneven like any other": Case(
        topic(), [sink("a", {0: 95}, made_by="old", beside="ab"), sink("b", {0: 90}, made_by="old", beside="ab")],
        Verdict.SAFE, apart={}, uneven=[0], level_under="old",
    ),
    "two were uneven when a third was added": Case(
        topic(), [sink("a", {0: 95}, made_by="old", beside="ac"), new("b"), sink("c", {0: 90}, made_by="old", beside="ac")],
        Verdict.SAFE, uneven=[0], level_under="old", keys=EARLIEST,
    ),
    "a third that is apart does not hide that two are uneven": Case(
        topic(),
        [
            sink("a", {0: 7}, made_by="old", beside="abc", apart={0: 95}),
            sink("b", {0: 95}, made_by="old", beside="bc"),
            sink("c", {0: 90}, made_by="old", beside="bc"),
        ],
        Verdict.SAFE, uneven=[0], level_under="old",
    ),
    "what it was apart from went back": Case(
        topic(), [sink("a", {0: 60}, made_by="old", beside="a"), sink("b", {0: 10}, made_by="newer", beside="ab", apart={0: 90})],
        Verdict.SAFE, apart={"b": {0: 60}},
    ),
    "comes back to the file: goes on at its tidemark": Case(
        topic(), [sink("a", {0: 90}, made_by="old", beside="a"), sink("b", {0: 40}, made_by="older", beside="ab")],
        Verdict.SAFE, {"b": {0: 40, 1: 0}}, {"b": {0: 90}}, tells="Sink b goes on at its tidemark: 50 offsets that others got without it",
    ),
    "was a party to the batch that it lacks": Case(
        topic(), [sink("a", {0: 90}, made_by="old", beside="ab"), sink("b", {0: 40}, made_by="old", beside="ab")],
        Verdict.SAFE, apart={}, uneven=[0], level_under="old",
    ),
    "comes back when Kafka has lost what it lacks": Case(
        topic({0: 60, 1: 0}), [sink("a", {0: 90}, beside="a"), sink("b", {0: 40}, beside="ab")], Verdict.NEEDS_APPROVAL,
        says="Sink b holds partition 0 up to 40, but Kafka begins at 60: 20 offsets are lost", exit_class=ExitClass.RETENTION_GAP,
    ),
    "comes back from an earlier epoch": Case(
        topic(), [sink("a", {0: 90}, epoch=2, beside="a"), old("b", {0: 40}, beside="ab")], Verdict.NEEDS_APPROVAL,
        says="Sink b holds partition 0 up to 40 of id old. The topic was made anew while it was out of the file: Kafka has id id.",
        exit_class=ExitClass.TOPIC_CHANGED,
    ),
    "comes back from an earlier epoch, approved: where this one began": Case(
        topic(), [sink("a", {0: 90}, epoch=2, beside="a", began={0: 20}), old("b", {0: 40}, beside="ab")], Verdict.SAFE,
        {"b": {0: 20, 1: 0}}, {"b": {0: 90}}, approvals=TOPIC,
    ),
    "notes that do not say who was beside: as if all were": Case(
        topic(), [sink("a", {0: 90}, made_by="old"), sink("b", {0: 40}, made_by="old")], Verdict.SAFE, apart={}, uneven=[0], level_under="old"
    ),
}  # fmt: skip
CASES = ADDED | APART


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_plan_with(case: Case) -> None:
    plan = plan_start(world(case.topic, *case.sinks), case.start, case.approvals, HASH, case.keys)
    assert plan.verdict is case.verdict, plan.objections
    assert {name: plan.adopted[name] for name in case.adopted} == case.adopted
    if case.apart is not None:
        assert {name: offsets for name, offsets in plan.apart.items() if offsets} == case.apart
    if case.verdict is Verdict.SAFE:
        assert (plan.uneven, plan.level_under) == (case.uneven, case.level_under)
    assert case.tells in " ".join(plan.told)
    assert case.says in " ".join(objection.sentence for objection in plan.objections)
    if case.exit_class:
        assert plan.objections[0].exit_class is case.exit_class


def test_the_refusal_of_a_new_sink_names_the_key() -> None:
    plan = plan_start(world(topic(), sink("a", {0: 4}), new("b")), "earliest", Approvals(), HASH)
    assert "sinks.b.from is `earliest`" in plan.objections[0].next_step
