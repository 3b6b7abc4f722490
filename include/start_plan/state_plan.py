"""Plans how a stateful stream gets its state (P6): continued from a folder, or made again from Kafka. Pure.

Either way only batches that a sink has recorded are run again, each with its own range and watermark, up to the highest tidemark:
no batch straddles a tidemark, and late records are judged as they were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from include.checkpoints.about import made_otherwise
from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.exit_class import ExitClass
from include.contract.fingerprint import state_hash, time_hash
from include.start_plan.event_times import tell_time
from include.start_plan.forgetting import Windows, forgets, windows_of
from include.start_plan.objection import Objection, Verdict
from include.start_plan.state_seen import Folder, StateSeen, horizon_ms
from include.start_plan.warm_up import plan_warm_up
from include.tidemarks.note import ADOPTED, EventClock, Tidemark
from include.tidemarks.recorded import RecordedBatch, Recording, same_offsets

Offsets = Mapping[int, int]
BEFORE_THE_FIRST = -1


class Way(StrEnum):
    FIRST = "first"  # nothing was delivered yet: the state begins empty
    CONTINUE = "continue"
    WARM_UP = "warm-up"


@dataclass(frozen=True)
class Needs:
    """What a state must fit."""

    state_hash: str
    horizon_ms: int
    shuffle_partitions: int
    time_hash: str | None = None  # of what makes event time
    has_dedupe: bool = True
    windows: Windows | None = None


def needs_of(stream: Stream, environment: Environment) -> Needs | None:
    """None for a stateless stream."""
    if not stream.spec.is_stateful:
        return None
    spec = stream.spec
    partitions = environment.spark.shuffle_partitions
    return Needs(state_hash(stream), horizon_ms(spec), partitions, time_hash(stream), spec.dedupe is not None, windows_of(spec))


@dataclass(frozen=True)
class StatePlan:
    way: Way
    starts: Offsets  # where reading begins
    source: Folder | None = None  # that is continued
    up_to_lowest: RecordedBatch | None = None  # everything from the starts to the lowest tidemark, as one batch
    replays: tuple[RecordedBatch, ...] = ()  # one by one, up to the highest tidemark
    forgotten_through_ms: int | None = None
    asks_to_forget_ms: int | None = None  # what a person must approve: exactly this time
    lowest: EventClock | None = None  # where the lowest sink stands in event time
    objections: tuple[Objection, ...] = ()
    told: tuple[str, ...] = ()

    @property
    def reads_again(self) -> int:
        """Offsets that every sink has already."""
        batch = self.up_to_lowest
        return sum(end - batch.starts.get(number, 0) for number, end in batch.ends.items()) if batch else 0


def plan_state(
    needs: Needs,
    seen: StateSeen,
    epoch: int,
    marks: Mapping[str, Tidemark],
    adopted: Mapping[str, Offsets],
    earliest: Offsets,
    forget_through_ms: int | None,
) -> StatePlan:
    """`marks`: of the sinks that have one, as they count in the epoch; `adopted`: where each would begin."""
    starts = {number: min(offsets.get(number, 0) for offsets in adopted.values()) for number in sorted(earliest)}
    batches = seen.recording.batches if seen.recording.epoch == epoch else ()
    forgotten = max((mark.clock.forgotten_ms for mark in marks.values() if mark.clock and mark.clock.forgotten_ms), default=None)
    if not batches:
        told = (_stay_as_they_are(forgotten),) if forgotten is not None and needs.windows else ()
        return StatePlan(Way.FIRST, starts, forgotten_through_ms=forgotten, objections=_without_state(marks), told=told)
    if (made_by := batches[-1].clock.time_hash) is not None and made_by != needs.time_hash:
        return StatePlan(Way.WARM_UP, starts, objections=(_other_time(batches[-1].clock),))
    found = {name: _index(batches, mark) for name, mark in marks.items()}
    if unknown := sorted(name for name, index in found.items() if index is None):
        return StatePlan(Way.WARM_UP, starts, objections=(_not_recorded(unknown[0], marks[unknown[0]]),))
    hindmost, lowest = min(((name, index) for name, index in found.items() if index is not None), key=lambda one: one[1])
    stands_at = batches[0].starts if lowest == BEFORE_THE_FIRST else batches[lowest].ends
    has_lost = not same_offsets(starts, stands_at)
    if has_lost and lowest != len(batches) - 1:
        return StatePlan(Way.WARM_UP, starts, objections=(_lost_and_uneven(hindmost),))
    if lowest == BEFORE_THE_FIRST:
        told = (_run_again(len(batches)),)
        return StatePlan(Way.FIRST, dict(stands_at), replays=batches, forgotten_through_ms=forgotten, told=told)
    clock = batches[lowest].clock.model_copy(update={"newest_ms": {}, "results": None})
    passed_over: list[str] = []
    for folder in () if has_lost else seen.folders:
        if (why := _why_not(folder, needs, batches, lowest, earliest)) is None:
            return replace(_continued(folder, batches, forgotten, tuple(passed_over)), lowest=clock)
        passed_over.append(f"{folder.path.name} is not continued: {why}.")
    may_forget = max((one for one in (forget_through_ms, forgotten) if one is not None), default=None)
    made = _warm_up(needs, seen.recording, lowest, starts, earliest, may_forget, tuple(passed_over))
    both = [one for one in (made.forgotten_through_ms, forgotten) if one is not None]
    return replace(made, forgotten_through_ms=max(both, default=None), lowest=clock)


def _index(batches: tuple[RecordedBatch, ...], mark: Tidemark) -> int | None:
    """After which batch a sink stands. An adoption may have raised its offsets over a loss that was approved."""
    there = [index for index, batch in enumerate(batches) if batch.ends_at(mark.offsets, mark.watermark_ms)]
    if not there and mark.batch == ADOPTED:
        there = [index for index, batch in enumerate(batches) if _is_below(batch, mark)]
    if not there and not mark.watermark_ms and dict(mark.offsets) == {n: batches[0].starts.get(n, 0) for n in mark.offsets}:
        return BEFORE_THE_FIRST
    return max(there, default=None)


def _is_below(batch: RecordedBatch, mark: Tidemark) -> bool:
    return batch.clock.watermark_ms == mark.watermark_ms and mark.covers(batch.ends)


def _why_not(folder: Folder, needs: Needs, batches: tuple[RecordedBatch, ...], lowest: int, earliest: Offsets) -> str | None:
    whole = folder.whole
    if whole is None:
        return " ".join(folder.damages).removesuffix(".") or "no batch of it is finished"
    if why := made_otherwise(folder.about, whole.settings, needs.state_hash, needs.shuffle_partitions):
        return why
    at = [index for index, batch in enumerate(batches) if batch.ends_at(whole.ends, whole.watermark_ms)]
    if not at:
        return f"no sink has a record that its batch {whole.batch} ended there (its table may have been put back)"
    if (made_by := batches[at[-1]].generation) > folder.generation:
        return f"generation {made_by} has made anew what its batch {whole.batch} was, perhaps of other batches"
    if at[-1] > lowest:
        return f"its batch {whole.batch} lies above a sink, which would lose records"
    if any(earliest.get(number, 0) > end for number, end in whole.ends.items()):
        return f"Kafka no longer has what follows its batch {whole.batch}"
    return None


def _continued(folder: Folder, batches: tuple[RecordedBatch, ...], forgotten: int | None, told: tuple[str, ...]) -> StatePlan:
    whole = folder.whole
    if whole is None:
        raise ValueError(f"{folder.path} has no whole batch")
    after = max(index for index, batch in enumerate(batches) if batch.ends_at(whole.ends, whole.watermark_ms)) + 1
    again = len(batches) - after
    said = f"State: {folder.path.name} is continued from its batch {whole.batch}; {again:,} recorded batches are run again."
    wrong = (f"{folder.path.name}: {damage}" for damage in folder.damages)
    return StatePlan(
        Way.CONTINUE,
        dict(whole.ends),
        folder,
        replays=batches[after:],
        forgotten_through_ms=forgotten,
        told=(*told, *wrong, said),
    )


def _warm_up(
    needs: Needs,
    recording: Recording,
    lowest: int,
    ends: Offsets,
    earliest: Offsets,
    may_forget_ms: int | None,
    told: tuple[str, ...],
) -> StatePlan:
    made = plan_warm_up(recording, lowest, ends, earliest, needs.horizon_ms)
    is_covered = made.forgotten_ms is None or (may_forget_ms is not None and made.forgotten_ms <= may_forget_ms)
    asks, watermark_ms = None if is_covered else made.forgotten_ms, recording.batches[lowest].clock.watermark_ms
    starts = made.batch.starts
    reads = sum(ends[number] - start for number, start in starts.items())
    shown = ", ".join(f"{number}: {start:,}" for number, start in starts.items())
    said = f"State: made again from Kafka, {reads:,} offsets from {shown}; nothing of them is written again."
    replays = recording.batches[lowest + 1 :]
    return StatePlan(
        Way.WARM_UP,
        starts,
        up_to_lowest=made.batch,
        replays=replays,
        forgotten_through_ms=made.forgotten_ms,
        asks_to_forget_ms=asks,
        objections=() if asks is None else (forgets(asks, watermark_ms, needs.windows, has_dedupe=needs.has_dedupe),),
        told=(*told, said, *([_run_again(len(replays))] if replays else [])),
    )


def _run_again(batches: int) -> str:
    return f"State: {batches:,} recorded batches are run again, one by one, for a sink that lacks them."


def _without_state(marks: Mapping[str, Tidemark]) -> tuple[Objection, ...]:
    """Adoptions before the first batch have no clock either."""
    delivered = [name for name, mark in marks.items() if mark.clock is None and mark.beside]
    said = (
        f"Sink {', '.join(delivered)} was filled while this stream had neither dedupe nor windows: "
        "what was in a state is not recorded."
    )
    next_step = "Give the stateful stream a file and tables of its own; or take dedupe and aggregate out of this one."
    return (Objection(Verdict.REFUSED, ExitClass.CONFIGURATION, said, next_step),) if delivered else ()


def _stay_as_they_are(forgotten_ms: int) -> str:
    through = tell_time(forgotten_ms)
    return f"State: begins empty; windows that began at or before {through} are not written any more and stay as they are."


def _other_time(clock: EventClock) -> Objection:
    said = (
        "Event time is made otherwise than in the batches that were delivered. Their watermark, "
        f"{tell_time(clock.watermark_ms)}, is of another time: records would be late by it that are not, and windows be in part."
    )
    next_step = "Put event_time, and what makes it, back as it was; or give the new one a stream file and tables of its own."
    return Objection(Verdict.REFUSED, ExitClass.CONFIGURATION, said, next_step)


def _not_recorded(sink: str, mark: Tidemark) -> Objection:
    ends = ", ".join(f"{number}: {end:,}" for number, end in sorted(mark.offsets.items()))
    said = (
        f"Sink {sink} stands at batch {mark.batch} of generation {mark.generation} (next offsets {ends}), where no batch of the "
        "foremost sink ended."
    )
    return Objection(Verdict.REFUSED, ExitClass.CONFIGURATION, said, _leave_out(sink))


def _lost_and_uneven(sink: str) -> Objection:
    said = f"Kafka has deleted records that sink {sink} lacks, and others have: the batches that had them cannot be run again."
    return Objection(Verdict.REFUSED, ExitClass.RETENTION_GAP, said, _leave_out(sink))


def _leave_out(sink: str) -> str:
    return (
        f"Take {sink} out of the stream file: the others go on. If it is still wanted, give it another name and table, and "
        "`from: now`. Do not put the table of another one back: Kafka may no longer have what that would lose."
    )
