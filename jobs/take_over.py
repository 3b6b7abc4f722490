"""Takes a stream over from whatever drove it before (P2), in this order and no other.

1. take a generation; 2. fence the quarantine, then every sink by name; 3. only then read every tidemark, for a zombie's last
commit may have landed before the fence; 4. plan the start; 5. adopt; 6. make a checkpoint folder at the lowest tidemarks;
then the caller runs (7).
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from include.checkpoints.folders import pass_over_all
from include.checkpoints.seed import check_ready, make_checkpoint
from include.contract.catalog import Stream
from include.contract.environment import Environment
from include.contract.exit_class import StreamFailure
from include.contract.fingerprint import snapshot, spec_hash, state_hash
from include.contract.identity import checkpoint_folder
from include.contract.places import Places
from include.control.database import ControlDatabase
from include.control.generations import Generation, keep_spec, note_state_reads, take_generation
from include.start_plan.approvals import Approvals, Loss
from include.start_plan.objection import Verdict
from include.start_plan.plan import StartPlan, plan_start
from include.start_plan.state_plan import needs_of
from include.start_plan.state_seen import read_state
from include.start_plan.world import World, read_world
from include.tidemarks.note import ADOPTED, EventClock, LedgerLine, Tidemark
from include.tidemarks.recorded import adopted_clock
from include.topics.topic import Topic
from jobs.failpoints import Failpoint, reach
from jobs.quarantine import Quarantine
from jobs.sink import NumberTaken, Sink
from jobs.sinks import Sinks
from jobs.state_folder import StateFolder

MADE_AGAIN = "a person asked for the state to be made again from Kafka"


class StartRefused(StreamFailure):
    """The start plan is not SAFE, and nobody approved what stands against it."""

    def __init__(self, stream: str, plan: StartPlan) -> None:
        self.exit_class = plan.objections[0].exit_class
        super().__init__(
            f"{plan.verdict.value}: {stream} cannot start as things are. "
            + " ".join(objection.sentence for objection in plan.objections),
            state="No record was delivered; the sinks hold their tidemarks.",
            next_step=" ".join(dict.fromkeys(objection.next_step for objection in plan.objections)),
            losses=[vars(loss) for loss in plan.losses],
        )


class NeedsLevelling(Exception):
    """The sinks end at different offsets, and another spec made the rows that some of them lack."""

    def __init__(self, spec_hash: str) -> None:
        super().__init__(spec_hash)
        self.spec_hash = spec_hash


@dataclass(frozen=True)
class TakenStream:
    """A stream in our hands: fenced, adopted, with a checkpoint folder of its own."""

    generation: Generation
    topic_id: str
    checkpoint: Path
    quarantine: Quarantine
    sinks: dict[str, Sink]
    plan: StartPlan
    state: StateFolder | None = None  # of a stateful stream


class TakeOver:
    def __init__(
        self,
        spark: SparkSession,
        stream: Stream,
        environment: Environment,
        places: Places,
        control: ControlDatabase,
        topic: Topic,
        schema: StructType,
        kept_as: str | None = None,
    ) -> None:
        """`kept_as`: the hash of the kept file by which rows are made again; of its sinks only those of today may be left."""
        self._stream = stream
        self._environment = environment
        self._control = control
        self._topic = topic
        self._places = places
        self._spec_hash = kept_as or spec_hash(stream)
        self._is_kept = kept_as is not None
        self._spark = spark
        self._sinks = Sinks(spark, stream, places, schema, self._spec_hash)
        self.generation: Generation | None = None  # the newest that was taken, also if the take-over failed after that

    def run(self, launch: str, approvals: Approvals) -> TakenStream:
        self._look_before_touching(approvals)
        if not self._is_kept:
            keep_spec(self._control, self._stream.name, self._spec_hash, snapshot(self._stream))
        while True:
            self.generation = generation = self._take_generation(launch)  # 1
            quarantine, sinks = self._sinks.of(generation)
            try:
                self._fence(quarantine, sinks)  # 2
            except NumberTaken:
                continue
            break
        seen = self._read(quarantine, sinks, approvals)  # 3
        plan = self._plan(seen, approvals)  # 4
        if plan.state is not None and plan.state.reads_again:
            note_state_reads(self._control, self._stream.name, generation.number, plan.state.reads_again)
        self._adopt(quarantine, sinks, seen, plan)  # 5
        if approvals.state == "warm_up":  # also by the next start, if this driver dies before its first batch
            pass_over_all(self._places.checkpoints, MADE_AGAIN)
        checkpoint, state = self._make_checkpoint(generation, plan)  # 6
        return TakenStream(generation, seen.topic.topic_id, checkpoint, quarantine, sinks, plan, state)

    def _fence(self, quarantine: Quarantine, sinks: dict[str, Sink]) -> None:
        for table in (quarantine.table, *sinks.values()):
            table.fence()
        reach(Failpoint.AFTER_FENCE)

    def _read(self, quarantine: Quarantine, sinks: dict[str, Sink], approvals: Approvals) -> World:
        states = {name: table.state() for name, table in sinks.items()}
        state = read_state(self._stream, self._places, states, approvals.state)
        seen = World(self._topic.state(), quarantine.table.state(), states, state)
        reach(Failpoint.AFTER_READ)
        return seen

    def _plan(self, seen: World, approvals: Approvals) -> StartPlan:
        spec = self._stream.spec
        needs = needs_of(self._stream, self._environment)
        plan = plan_start(seen, spec.source.start, approvals, self._spec_hash, spec.begins, needs)
        if plan.verdict is not Verdict.SAFE:
            raise StartRefused(self._stream.name, plan)
        if plan.level_under is not None:
            raise NeedsLevelling(plan.level_under)
        return plan

    def _adopt(self, quarantine: Quarantine, sinks: dict[str, Sink], seen: World, plan: StartPlan) -> None:
        def mark(offsets: dict[int, int]) -> Tidemark:
            return Tidemark(
                generation=quarantine.table.generation.number,
                batch=ADOPTED,
                offsets=offsets,
                topic_id=seen.topic.topic_id,
                epoch=plan.epoch.number,
                began={number: offset for number, offset in plan.epoch.began.items() if offset},
            )

        quarantine.table.adopt(seen.quarantine, mark({}), pinned=False)
        for name, table in sinks.items():
            losses = [_lost(loss) for loss in plan.losses if loss.sink == name]
            before = seen.sinks[name].tidemark
            goes_on = {
                "apart": plan.apart.get(name, {}),
                "beside": before.beside if before else (),
                "clock": self._clock(before, plan),
            }
            adopted = mark(plan.adopted[name]).model_copy(update=goes_on)
            table.adopt(seen.sinks[name], adopted, pinned=not plan.is_first, losses=losses, quarantine=quarantine.newest)
            reach(Failpoint.AFTER_ADOPTION)

    def _clock(self, before: Tidemark | None, plan: StartPlan) -> EventClock | None:
        """A sink that is new stands where the lowest of the others does. Only a batch makes it forget event time."""
        if plan.state is None:
            return before.clock if before is not None and before.epoch == plan.epoch.number else None
        clock = adopted_clock(before, plan.epoch.number, plan.state.forgotten_through_ms)
        return clock if before is not None or plan.state.lowest is None else plan.state.lowest

    def _make_checkpoint(self, generation: Generation, plan: StartPlan) -> tuple[Path, StateFolder | None]:
        folder = self._environment.checkpoint_path(checkpoint_folder(self._stream.name, generation.number))
        topic, state = self._stream.spec.source.topic, None
        if plan.state is None:
            make_checkpoint(folder, topic, plan.starts)
        else:
            state = StateFolder(self._spark, folder, topic, plan.state, state_hash(self._stream))
            state.make()
        check_ready(folder)
        reach(Failpoint.AFTER_CHECKPOINT)
        return folder, state

    def _look_before_touching(self, approvals: Approvals) -> None:
        """A start that will be refused must not fence a driver that runs well. What is decided here is decided again."""
        seen = read_world(self._stream, self._places, self._control, self._topic, approvals.state)
        self._sinks.check(seen)
        self._plan(seen, approvals)

    def _take_generation(self, launch: str) -> Generation:
        highest = read_world(self._stream, self._places, self._control, self._topic, None).highest_generation
        generation = take_generation(self._control, self._stream.name, launch, self._spec_hash, highest)
        reach(Failpoint.AFTER_GENERATION)
        return generation


def _lost(loss: Loss) -> LedgerLine:
    """Offsets, not records: Kafka can no longer tell how many there were."""
    return LedgerLine(partition=loss.partition, start=loss.start, end=loss.end, lost=loss.end - loss.start)
