"""How a stateful stream gets its state: from which folder or offsets, with which recorded batches, and what stands against it."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from include.checkpoints.about import About
from include.checkpoints.spark_log import PlannedBatch
from include.start_plan.forgetting import Windows
from include.start_plan.objection import Verdict
from include.start_plan.state_plan import Needs, StatePlan, Way, plan_state
from include.start_plan.state_seen import Folder, StateSeen
from include.tidemarks.note import ADOPTED, EventClock, Tidemark
from include.tidemarks.recorded import PastRange, RecordedBatch, Recording

MINUTE = 60_000
NEEDS = Needs("hash", horizon_ms=10 * MINUTE, shuffle_partitions=2, windows=Windows(5 * MINUTE, 5 * MINUTE))


def batch(number: int, watermark: int, newest: int | None, late: int | None = None) -> RecordedBatch:
    """Ten records of one partition, unless no event time is given: then it is one without records, after batch `number`."""
    start = 10 * number if newest is not None else 10 * (number + 1)
    clock = EventClock(
        watermark_ms=watermark * MINUTE,
        late_ms=(late if late is not None else watermark) * MINUTE,
        highest_ms=(newest if newest is not None else 0) * MINUTE or None,
        newest_ms={0: newest * MINUTE} if newest is not None else {},
    )
    return RecordedBatch({0: start}, {0: 10 * (number + 1)}, clock)


HISTORY = (batch(0, 0, 100), batch(1, 90, 110), batch(2, 100, 115), batch(3, 105, 120))


def mark(after: RecordedBatch, **more: object) -> Tidemark:
    return Tidemark(
        generation=1, batch=0, offsets=dict(after.ends), topic_id="t", epoch=1, clock=after.clock, beside=("a",)
    ).model_copy(update=more)


def folder(after: RecordedBatch, name: str = "c000001", **more: object) -> Folder:
    settings = {"spark.sql.shuffle.partitions": "2"}
    whole = PlannedBatch(7, after.ends, after.clock.watermark_ms, 0, settings)
    return replace(Folder(Path(name), About("hash"), whole), **more)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    says: str
    marks: dict[str, Tidemark]
    way: Way
    folders: tuple[Folder, ...] = ()
    batches: tuple[RecordedBatch, ...] = HISTORY
    is_whole: bool = True
    earliest: dict[int, int] = field(default_factory=lambda: {0: 0})
    forget: int | None = None
    starts: dict[int, int] | None = None
    replays: int = 0
    again: int | None = None
    verdict: Verdict | None = None
    forgotten: int | None = None
    told: str = ""


EVEN = {"a": mark(HISTORY[3])}
ADDED = {"a": mark(HISTORY[3], offsets={0: 40, 1: 0})}
FORGIVEN = {"a": mark(HISTORY[3], batch=ADOPTED, clock=HISTORY[3].clock.model_copy(update={"forgotten_ms": 110 * MINUTE}))}
LOST = {"a": mark(HISTORY[3], batch=ADOPTED, offsets={0: 55})}
UNEVEN = {"a": mark(HISTORY[3]), "b": mark(HISTORY[1])}
CASES = [
    Case("nothing was delivered", {}, Way.FIRST, batches=()),
    Case("a whole folder is continued", EVEN, Way.CONTINUE, (folder(HISTORY[3]),), starts={0: 40}),
    Case("a partition was added since", ADDED, Way.CONTINUE, (folder(HISTORY[3]),), earliest={0: 0, 1: 0}, starts={0: 40}),
    Case("what follows the folder is run again", EVEN, Way.CONTINUE, (folder(HISTORY[1]),), starts={0: 20}, replays=2, again=0),
    Case("uneven sinks continue below the lowest", UNEVEN, Way.CONTINUE, (folder(HISTORY[1]),), replays=2),
    Case(
        *("a folder above a sink is not continued", UNEVEN, Way.WARM_UP, (folder(HISTORY[3]),)),
        replays=2,
        told="above a sink",
    ),
    Case(
        *("the next folder is tried", UNEVEN, Way.CONTINUE, (folder(HISTORY[3], "c000002"), folder(HISTORY[0]))),
        replays=3,
        told="c000002 is not continued",
    ),
    Case("another file made it", EVEN, Way.WARM_UP, (folder(HISTORY[3], about=About("other")),), told="another stream file"),
    Case("it says nothing of itself", EVEN, Way.WARM_UP, (folder(HISTORY[3], about=None),), told="another stream file"),
    Case(
        *("other shuffle partitions", EVEN, Way.WARM_UP),
        folders=(folder(HISTORY[3], whole=PlannedBatch(7, {0: 40}, 105 * MINUTE, 0, {"spark.sql.shuffle.partitions": "5"})),),
        told="5 shuffle partitions, the environment says 2",
    ),
    Case(
        "it is damaged", EVEN, Way.WARM_UP, (folder(HISTORY[3], whole=None, damages=("metadata is missing",)),), told="metadata"
    ),
    Case(
        "a table was put back since, and its batches were made anew",
        EVEN,
        Way.WARM_UP,
        (folder(HISTORY[3], "c000004"), folder(HISTORY[3], "b20261118T093000Z-c000004")),
        batches=(*HISTORY[:3], replace(HISTORY[3], generation=5)),
        told="generation 5 has made anew what its batch 7 was",
    ),
    Case("no sink recorded its end", EVEN, Way.WARM_UP, (folder(batch(3, 104, 120)),), told="no sink has a record"),
    Case(
        "Kafka has not what follows it",
        EVEN,
        Way.WARM_UP,
        (folder(HISTORY[1]),),
        earliest={0: 25},
        verdict=Verdict.NEEDS_APPROVAL,
        forgotten=115,
    ),
    Case("a warm-up reaches back to the horizon", EVEN, Way.WARM_UP, starts={0: 0}),
    Case(
        *("and no further", {"a": mark(batch(4, 121, 130))}, Way.WARM_UP),
        batches=(*HISTORY, batch(4, 121, 130)),
        starts={0: 20},
    ),
    Case("the log no longer reaches so far", EVEN, Way.WARM_UP, is_whole=False, verdict=Verdict.NEEDS_APPROVAL, forgotten=100),
    Case("Kafka no longer reaches so far", EVEN, Way.WARM_UP, earliest={0: 12}, verdict=Verdict.NEEDS_APPROVAL, forgotten=110),
    Case("which was approved", EVEN, Way.WARM_UP, earliest={0: 12}, forget=110, starts={0: 12}, forgotten=110),
    Case("which an adoption has written down", FORGIVEN, Way.WARM_UP, earliest={0: 12}, starts={0: 12}, forgotten=110),
    Case(
        "a loss was adopted and nothing was delivered since",
        LOST,
        Way.WARM_UP,
        earliest={0: 55},
        starts={0: 55},
        forgotten=120,
        forget=120,
        told="made again",
    ),
    Case(
        "an added partition has lost its beginning",
        ADDED,
        Way.WARM_UP,
        (folder(HISTORY[3]),),
        earliest={0: 0, 1: 7},
        starts={0: 0, 1: 7},
    ),
    Case("for less than that", EVEN, Way.WARM_UP, earliest={0: 12}, forget=109, verdict=Verdict.NEEDS_APPROVAL, forgotten=110),
    Case(
        "a sink stands where no batch ended",
        {"a": mark(HISTORY[3]), "b": mark(HISTORY[1], offsets={0: 17})},
        Way.WARM_UP,
        verdict=Verdict.REFUSED,
    ),
    Case(
        *(
            "the first batch reached one sink only",
            {"a": mark(HISTORY[3]), "b": mark(HISTORY[0], offsets={0: 0}, clock=None)},
            Way.FIRST,
        ),
        starts={0: 0},
        replays=4,
    ),
    Case(
        "a sink without a batch has lost what the first one had",
        {"a": mark(HISTORY[3]), "b": mark(HISTORY[0], offsets={0: 0}, clock=None)},
        Way.WARM_UP,
        earliest={0: 5},
        verdict=Verdict.REFUSED,
    ),
    Case(
        "event time is made otherwise",
        EVEN,
        Way.WARM_UP,
        (folder(HISTORY[3]),),
        batches=(*HISTORY[:3], replace(HISTORY[3], clock=HISTORY[3].clock.model_copy(update={"time_hash": "of another"}))),
        verdict=Verdict.REFUSED,
    ),
    Case("it was stateless before", {"a": mark(HISTORY[3], clock=None)}, Way.FIRST, batches=(), verdict=Verdict.REFUSED),
]


def planned(case: Case) -> StatePlan:
    seen = StateSeen(case.folders, Recording(1, case.batches, case.is_whole))
    begins = {name: {n: max(one.next_offset(n), start) for n, start in case.earliest.items()} for name, one in case.marks.items()}
    adopted = begins or {"a": {0: 0}}
    forget = case.forget * MINUTE if case.forget is not None else None
    return plan_state(NEEDS, seen, 1, case.marks, adopted, case.earliest, forget)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_the_state_when(case: Case) -> None:
    plan = planned(case)
    assert plan.way is case.way
    assert [objection.verdict for objection in plan.objections] == ([case.verdict] if case.verdict else [])
    assert len(plan.replays) == case.replays
    assert case.again is None or plan.reads_again == case.again
    assert case.starts is None or plan.starts == case.starts
    assert plan.forgotten_through_ms == (case.forgotten * MINUTE if case.forgotten is not None else None)
    assert case.told in " ".join(plan.told)


def test_a_warm_up_ends_at_the_lowest_tidemark_with_its_watermark_and_knows_the_batches_below_it() -> None:
    plan = planned(Case("", UNEVEN, Way.WARM_UP))
    assert plan.up_to_lowest is not None
    assert (plan.up_to_lowest.ends, plan.up_to_lowest.clock) == (HISTORY[1].ends, HISTORY[1].clock)
    assert plan.up_to_lowest.past == (PastRange(0, 0, 0, 10, 0), PastRange(1, 0, 10, 20, 90 * MINUTE))
    assert plan.replays == HISTORY[2:]


def test_the_consequence_is_told_in_words() -> None:
    (objection,) = planned(Case("", EVEN, Way.WARM_UP, earliest={0: 12})).objections
    assert "(the watermark is 1970-01-01T01:45:00.000Z)" in objection.sentence
    assert "duplicates of events up to 1970-01-01T01:50:00.000Z would pass; " in objection.sentence
    assert "windows 1970-01-01 01:45-01:50 UTC, 1970-01-01 01:50-01:55 UTC keep their last value." in objection.sentence
    assert "FORGET=1970-01-01T01:50:00.000Z" in objection.next_step
