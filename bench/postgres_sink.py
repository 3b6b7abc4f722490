"""`make bench-postgres`: a batch into PostgreSQL, staged and in one transaction, against the two usual ways, alternating.

All three put the same rows, computed and cached before, into tables of the same shape, first rows of each key. The usual ways
keep no tidemark, no ledger and no rejects: a row that the database refuses ends them.
"""

import statistics
import time
import uuid
from collections.abc import Callable
from contextlib import closing

import psycopg2
from psycopg2.extras import execute_values
from psycopg2.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.ground import bench_ground
from include.contract.connections import read_connection
from include.contract.places import DatabaseTable
from include.contract.stream_spec import PostgresInsertNew
from include.control.generations import Generation
from include.local_stack.postgres import WAREHOUSE
from include.tidemarks.note import ADOPTED, LedgerLine, Tidemark
from jobs.postgres.postgres_sink import PostgresTableSink

ROUNDS, PARTITIONS = 3, 4
SIZES = (1_000, 50_000, 200_000)


def main() -> None:
    with bench_ground() as (_, spark):
        ways = {"staged by COPY (ours)": ours, "collect, execute_values": with_execute_values, "collect, row by row": row_by_row}
        measure(ways, orders(spark, 1_000))  # warm up, not told
        for size in SIZES:
            tell(size, measure(ways, orders(spark, size)))


def orders(spark: SparkSession, count: int) -> DataFrame:
    number = F.col("id")
    rows = spark.range(count, numPartitions=PARTITIONS).select(
        F.lit("orders").alias("_topic"),
        F.lit(1).alias("_topic_epoch"),
        (number % PARTITIONS).cast("int").alias("_partition"),
        F.floor(number / PARTITIONS).cast("bigint").alias("_offset"),
        F.timestamp_seconds(number + 1_760_000_000).alias("_kafka_timestamp"),
        F.lit(1).cast("bigint").alias("_generation"),
        F.lit(0).cast("bigint").alias("_batch_id"),
        F.md5(number.cast("string")).alias("event_id"),
        F.concat(F.lit("user-"), number % 5_000).alias("user_id"),
        (number % 99_999 / 100).cast("decimal(12,2)").alias("amount"),
        F.timestamp_seconds(number + 1_750_000_000).alias("ts"),
        F.lit(None).cast("string").alias("note"),
    )
    rows = rows.persist()
    rows.count()
    return rows


def measure(ways: dict[str, Callable[[DataFrame, str], float]], rows: DataFrame) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            seconds[name].append(way(rows, f"bench_{uuid.uuid4().hex[:8]}"))
    rows.unpersist()
    return seconds


def ours(rows: DataFrame, table: str) -> float:
    """As delivery does it: fenced and adopted before, then a batch is written and committed."""
    settings = PostgresInsertNew(kind="postgres_insert_new", connection=WAREHOUSE, table=table, key=["event_id"])
    place = DatabaseTable(WAREHOUSE, "public", table)
    generation = Generation(1, str(uuid.uuid4()), "bench")
    sink = PostgresTableSink(place, table, "rows", "orders", settings, rows.schema, generation, "bench")
    sink.fence()
    adopted = Tidemark(generation=1, batch=ADOPTED, offsets={}, topic_id="t", epoch=1)
    sink.adopt(sink.state(), adopted, pinned=False)
    ends = {row["_partition"]: row["count"] for row in rows.groupBy("_partition").count().collect()}
    ledger = [LedgerLine(partition=n, start=0, end=end, read=end, delivered=end) for n, end in ends.items()]
    began = time.monotonic()
    batch = sink.open_batch()
    written = batch.write(rows.select(*sink.columns))
    booked = batch.commit(adopted.raised_to(1, 0, ends), ledger)
    seconds = time.monotonic() - began
    assert written == sum(ends.values()) == sum(line.delivered for line in booked)
    return seconds


def with_execute_values(rows: DataFrame, table: str) -> float:
    return _collected(
        rows, table, lambda cursor, insert, values: execute_values(cursor, insert.format("%s"), values, page_size=1_000)
    )


def row_by_row(rows: DataFrame, table: str) -> float:
    def insert_each(cursor: psycopg2.extensions.cursor, insert: str, values: list[tuple[object, ...]]) -> None:
        one = insert.format("({})".format(", ".join(["%s"] * len(values[0]))))
        for value in values:
            cursor.execute(one, value)

    return _collected(rows, table, insert_each)


def _collected(rows: DataFrame, table: str, insert: Callable[..., None]) -> float:
    where = read_connection(WAREHOUSE)
    login = {"host": where.host, "port": where.port, "user": where.login, "password": where.password, "dbname": where.schema}
    with closing(psycopg2.connect(**login)) as connection, connection.cursor() as cursor:
        cursor.execute(
            SQL(
                "CREATE TABLE public.{} (_topic text, _topic_epoch integer, _partition integer, _offset bigint, _kafka_timestamp"
                " timestamptz, _generation bigint, _batch_id bigint, event_id text PRIMARY KEY, user_id text,"
                " amount numeric(12,2), ts timestamptz, note text)"
            ).format(Identifier(table))
        )
        cursor.execute(SQL("CREATE INDEX ON public.{} (_topic_epoch, _partition, _offset)").format(Identifier(table)))
        connection.commit()
        text = SQL("INSERT INTO public.{} VALUES ").format(Identifier(table)).as_string(cursor)
        began = time.monotonic()
        insert(cursor, text + "{} ON CONFLICT DO NOTHING", [tuple(row) for row in rows.collect()])
        connection.commit()
        return time.monotonic() - began


def tell(size: int, seconds: dict[str, list[float]]) -> None:
    middle = {name: statistics.median(taken) for name, taken in seconds.items()}
    first = next(iter(middle.values()))
    print(f"{size:,} rows, median of {ROUNDS}:")
    for name, taken in middle.items():
        print(f"  {name:<26}{taken:8.2f} s  {size / taken:10,.0f} rows/s  {taken / first:6.1f}x", flush=True)


if __name__ == "__main__":
    main()
