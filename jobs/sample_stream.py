"""`make check STREAM=x`: the newest records of a stream's topic as the stream file would decode and transform them.

Reads only. Started in the foreground by `include.local_stack`, with the stack's connections.
"""

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.contract.catalog import Stream, find_stream
from include.contract.connections import read_connection
from include.contract.errors import TidemarkError
from include.topics.topic import Topic, TopicState
from jobs.decode import decode
from jobs.explain import explain
from jobs.session import open_session
from jobs.source import read_records
from jobs.transform import bad_records, transform

ROWS = 10


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream")
    try:
        stream = find_stream(parser.parse_args(arguments).stream)
        address = read_connection(stream.spec.source.connection).address
        starts = newest(Topic(address, stream.spec.source.topic).state())
        show(sample(open_session(f"sample {stream.name}"), stream, address, starts), stream)
    except TidemarkError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def newest(topic: TopicState) -> dict[int, int]:
    """Per partition where to begin to see at most ROWS records."""
    return {number: max(topic.earliest[number], end - ROWS) for number, end in topic.latest.items()}


def sample(spark: SparkSession, stream: Stream, address: str, starts: dict[int, int]) -> DataFrame:
    """One row per record, newest first: its fate and, if it is delivered, its columns as JSON."""
    decoded = decode(read_records(spark, address, stream.spec.source.topic, starts), stream)
    rows = transform(decoded, stream).where("not _bad")
    columns = F.to_json(F.struct(*(name for name in rows.columns if not name.startswith("_"))))
    good = rows.select("_partition", "_offset", F.when(F.col("_filtered"), "filtered").otherwise("delivered"), columns)
    bad = explain(bad_records(decoded, stream), stream).select("_partition", "_offset", "_reason", "_detail")
    return good.union(bad).toDF("partition", "offset", "fate", "row").orderBy(F.desc("offset"), "partition").limit(ROWS)


def show(rows: DataFrame, stream: Stream) -> None:
    print(f"{stream.name}: the newest records of topic {stream.spec.source.topic}, as this file reads them")
    rows.show(ROWS, truncate=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
