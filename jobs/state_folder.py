"""Makes the folder that a stateful stream begins with, as its state plan says (P6), and writes the batches that are run again."""

import json
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from include.checkpoints.about import ABOUT, SHUFFLE_PARTITIONS, About
from include.checkpoints.carry_over import carry_over
from include.checkpoints.seed import make_checkpoint, plan_batch, planned_batch
from include.checkpoints.spark_log import last_committed
from include.start_plan.state_plan import StatePlan
from include.tidemarks.recorded import RecordedBatch
from jobs.java_class import java_class

METADATA = "org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata"


class StateFolder:
    """`pending`: batches that are still to be run again, each as it was recorded."""

    def __init__(self, spark: SparkSession, folder: Path, topic: str, plan: StatePlan, state_hash: str) -> None:
        self._spark = spark
        self.folder = folder
        self._topic = topic
        self._plan = plan
        self._about = {ABOUT: About(state_hash, plan.source.path.name if plan.source else None).to_json()}
        self._ends = dict(plan.starts)
        self.pending = [*([plan.up_to_lowest] if plan.up_to_lowest else []), *plan.replays]

    def make(self) -> None:
        source = self._plan.source
        if source is not None and source.whole is not None:
            carry_over(source.path, self.folder, source.whole.batch, self._about)
        else:
            make_checkpoint(self.folder, self._topic, self._plan.starts, self._about)

    def plan_next(self) -> RecordedBatch | None:
        """Writes the next pending batch into the folder; the next query runs it. None if there is none."""
        if not self.pending:
            return None
        batch = self.pending.pop(0)
        done = last_committed(self.folder)
        number = 0 if done is None else done + 1
        self._ends |= batch.ends  # a partition that was added later stays where it is: without it Spark takes it for deleted
        plan_batch(self.folder, number, planned_batch(self._topic, self._ends, self._metadata(batch.clock.watermark_ms)))
        return batch

    def _metadata(self, watermark_ms: int) -> str:
        """By Spark itself, with the settings of this session: a key that was left out would mean an old default."""
        settings: Any = self._spark._jsparkSession.conf()
        of_batch: Any = java_class(self._spark, METADATA).apply(watermark_ms, int(time.time() * 1000), settings)
        told = json.loads(of_batch.json())
        told["conf"][SHUFFLE_PARTITIONS] = self._spark.conf.get(SHUFFLE_PARTITIONS)  # Spark fills it in later, from another key
        return json.dumps(told)
