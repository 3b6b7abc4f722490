"""A real stateful query with its checkpoint: dedupe and five-minute sums per user, over records whose result plain Python knows.

Its first batches upload a snapshot each, the later ones write changelogs: the folder holds every kind of state file, and nobody
waits for Spark's background thread. The session has files of its own kind, for RocksDB's snapshots need Hadoop's checksum files.
"""

import json
import uuid
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.checkpoints.seed import make_checkpoint
from include.local_stack.stack import Stack

STATE = "spark.sql.streaming.stateStore"
MINUTE = 60
WINDOW = 5 * MINUTE
Sums = dict[tuple[str, int], int]  # (user, start of the window in seconds) -> sum


class StatefulQuery:
    def __init__(self, spark: SparkSession, stack: Stack, retained: int = 100) -> None:
        self.topic = f"stateful-{uuid.uuid4().hex}"
        self._kafka = {"bootstrap.servers": stack.kafka.connection.address}
        admin = AdminClient(self._kafka)
        admin.create_topics([NewTopic(self.topic, 2, 1)])[self.topic].result(10)
        self._session = spark.newSession()
        for key, value in {
            "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
            "fs.file.impl.disable.cache": "true",
            f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            "spark.sql.streaming.minBatchesToRetain": str(retained),
        }.items():
            self._session.conf.set(key, value)
        self._sent: list[dict[str, str | int]] = []

    def send(self, count: int) -> None:
        """A third of the ids were sent before, by the other partition too; event times lie within eight minutes of each other."""
        producer = Producer(self._kafka)
        for number in range(len(self._sent), len(self._sent) + count):
            original = number if number % 3 else number // 2
            record: dict[str, str | int] = {
                "id": f"e{original}",
                "user": f"u{original % 5}",
                "amount": original,
                "at": original % 480,
            }
            self._sent.append(record)
            producer.produce(self.topic, json.dumps(record), partition=number % 2)
        assert producer.flush(10) == 0

    def expected(self) -> Sums:
        sums: Sums = defaultdict(int)
        for record in {str(record["id"]): record for record in self._sent}.values():
            at = int(record["at"])
            sums[str(record["user"]), at - at % WINDOW] += int(record["amount"])
        return dict(sums)

    def begin(self, checkpoint: Path) -> None:
        make_checkpoint(checkpoint, self.topic, {0: 0, 1: 0})

    def run(self, checkpoint: Path, *, changelogs: bool = True) -> dict[int, Sums]:
        """To the end of the topic; by batch, the sums that it changed."""
        self._session.conf.set(f"{STATE}.rocksdb.changelogCheckpointing.enabled", str(changelogs).lower())
        changed: dict[int, Sums] = {}

        def take(batch: DataFrame, number: int) -> None:
            changed[number] = {(row["user"], row["start"]): row["total"] for row in batch.collect()}

        query = self._sums().writeStream.outputMode("update").foreachBatch(take)
        query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
        return changed

    def _sums(self) -> DataFrame:
        source = self._session.readStream.format("kafka").option("subscribe", self.topic).option("maxOffsetsPerTrigger", 40)
        source = source.option("kafka.bootstrap.servers", self._kafka["bootstrap.servers"])
        record = F.from_json(F.col("value").cast("string"), "id string, user string, amount long, at long")
        rows = source.load().select(record.alias("record")).select("record.*").withColumn("ts", F.timestamp_seconds("at"))
        once = rows.withWatermark("ts", "10 minutes").dropDuplicatesWithinWatermark(["id"])
        sums = once.groupBy(F.window("ts", f"{WINDOW} seconds"), "user").agg(F.sum("amount").alias("total"))
        return sums.select("user", F.unix_timestamp("window.start").alias("start"), "total")
