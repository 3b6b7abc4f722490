"""A topic into a topic by Spark's own sink: python -m tests.crash.plain_kafka TOPIC OUTPUT CHECKPOINT.

The must-fail twin of the `kafka` sink. With KILL in the environment the process ends itself (SIGKILL) in its second batch, after
its records were written and before Spark knows it.
"""

import sys

from pyspark.sql import DataFrame

from include.contract.connections import read_connection
from tests.crash.common_recipe import die_in
from tests.warm_jvm import borrowed


def main(topic: str, output: str, checkpoint: str) -> None:
    address = read_connection("kafka_main").address
    source = borrowed().readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", topic)
    records = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300).load()

    def send(batch: DataFrame, number: int) -> None:
        batch.select("key", "value").write.format("kafka").option("kafka.bootstrap.servers", address).option(
            "topic", output
        ).save()
        die_in(number)

    query = records.writeStream.foreachBatch(send).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
