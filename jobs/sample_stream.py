"""`make check STREAM=x`: the newest records of a stream's topic as the stream file would decode and transform them.

Reads only. Started in the foreground by `include.local_stack`, with the stack's connections.
"""

import argparse
import json
import sys

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.contract.catalog import Stream, load_streams
from include.contract.connections import read_connection
from include.contract.errors import TidemarkError
from include.contract.problems import nearest
from include.contract.stream_spec import Source
from jobs.decode import decode
from jobs.session import open_session
from jobs.source import READ_COMMITTED, as_records
from jobs.transform import transform

ROWS = 10
ANSWER_SECONDS = 10


class UnknownStream(TidemarkError):
    """No stream file of this name."""


class TopicMissing(TidemarkError):
    """The stream's topic is not there."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream")
    try:
        stream = _find(parser.parse_args(arguments).stream)
        address = read_connection(stream.spec.source.connection).address
        starts = newest(address, stream.spec.source)
        show(sample(open_session(f"sample {stream.name}"), stream, address, starts), stream)
    except TidemarkError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def newest(address: str, source: Source) -> dict[int, int]:
    """Per partition where to begin to see at most ROWS records."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "tidemark.sample"})
    try:
        partitions = consumer.list_topics(source.topic, timeout=ANSWER_SECONDS).topics[source.topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(source.topic, number), ANSWER_SECONDS) for number in partitions
        }
    finally:
        consumer.close()
    if not ends:
        raise TopicMissing(
            f"There is no topic {source.topic!r} on {address}.",
            state="Nothing was read.",
            next_step="Create the topic, or mend source.topic in the stream file.",
        )
    return {number: max(low, end - ROWS) for number, (low, end) in ends.items()}


def sample(spark: SparkSession, stream: Stream, address: str, starts: dict[int, int]) -> DataFrame:
    """One row per record, newest first: its fate and, if it is delivered, its columns as JSON."""
    options = {
        "kafka.bootstrap.servers": address,
        "subscribe": stream.spec.source.topic,
        "includeHeaders": "true",
        "startingOffsets": json.dumps({stream.spec.source.topic: starts}),
        **READ_COMMITTED,
    }
    decoded = decode(as_records(spark.read.format("kafka").options(**options).load()), stream)
    rows = transform(decoded, stream)
    columns = F.to_json(F.struct(*(name for name in rows.columns if not name.startswith("_"))))
    good = rows.select("_partition", "_offset", F.when(F.col("_filtered"), "filtered").otherwise("delivered"), columns)
    bad = decoded.where("_reason is not null").select("_partition", "_offset", F.col("_reason"), F.col("_detail"))
    return good.union(bad).toDF("partition", "offset", "fate", "row").orderBy(F.desc("offset"), "partition").limit(ROWS)


def show(rows: DataFrame, stream: Stream) -> None:
    print(f"{stream.name}: the newest records of topic {stream.spec.source.topic}, as this file reads them")
    rows.show(ROWS, truncate=False)


def _find(name: str) -> Stream:
    streams = load_streams()
    if name not in streams:
        raise UnknownStream(
            f"There is no config/streams/{name}.yaml.{nearest(name, streams)}",
            state="Nothing was read.",
            next_step="Run `make streams` to see all of them.",
        )
    return streams[name]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
