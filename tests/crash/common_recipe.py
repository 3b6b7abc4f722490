"""How totals are commonly kept in PostgreSQL from a stream: python -m tests.crash.common_recipe RECIPE TOPIC TABLE CHECKPOINT.

Two recipes, each as it is written everywhere, and each wrong after a crash: it is the must-fail twin of `postgres_totals`. With
KILL in the environment the process ends itself (SIGKILL) in its second batch, where the recipe is weak.
"""

import os
import signal
import sys
from contextlib import closing

import psycopg2
from psycopg2.extras import execute_values
from psycopg2.sql import SQL, Identifier
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from include.contract.connections import Connection, read_connection
from tests.warm_jvm import borrowed

ADD = (
    "INSERT INTO public.{0} AS there (user_id, amount_cents, orders) VALUES %s ON CONFLICT (user_id) DO UPDATE SET"
    " amount_cents = there.amount_cents + excluded.amount_cents, orders = there.orders + excluded.orders"
)


def connect(where: Connection) -> psycopg2.extensions.connection:
    return psycopg2.connect(host=where.host, port=where.port, user=where.login, password=where.password, dbname=where.schema)


def increments_without_a_tidemark(rows: DataFrame, batch: int, table: str) -> None:
    """Every batch adds its sums. A batch that is replayed adds them again."""
    with closing(connect(read_connection("warehouse"))) as connection, connection, connection.cursor() as cursor:
        execute_values(cursor, SQL(ADD).format(Identifier(table)).as_string(cursor), [tuple(row) for row in rows.collect()])
    die_in(batch)


def batch_number_in_a_transaction_of_its_own(rows: DataFrame, batch: int, table: str) -> None:
    """The number of the batch is written down, so that a replay is skipped; but after the data, not with it."""
    with closing(connect(read_connection("warehouse"))) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT max(batch) FROM public.done WHERE target = %s", [table])
        (done,) = cursor.fetchone() or (None,)
        if done is not None and batch <= done:
            return
        execute_values(cursor, SQL(ADD).format(Identifier(table)).as_string(cursor), [tuple(row) for row in rows.collect()])
        connection.commit()
        die_in(batch)
        cursor.execute("INSERT INTO public.done (target, batch) VALUES (%s, %s)", [table, batch])
        connection.commit()


def die_in(batch: int) -> None:
    if batch == 1 and "KILL" in os.environ:
        os.kill(os.getpid(), signal.SIGKILL)


RECIPES = {recipe.__name__: recipe for recipe in (increments_without_a_tidemark, batch_number_in_a_transaction_of_its_own)}


def main(recipe: str, topic: str, table: str, checkpoint: str) -> None:
    spark = borrowed()
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", read_connection("kafka_main").address)
    records = source.option("subscribe", topic).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300).load()
    order = F.from_json(F.col("value").cast("string"), "user_id string, amount decimal(12,2)")
    rows = records.select(order.alias("o")).select("o.*")

    def add(batch: DataFrame, number: int) -> None:
        cents = F.sum(F.col("amount") * 100).cast("bigint")
        RECIPES[recipe](batch.groupBy("user_id").agg(cents, F.count("*")), number, table)

    query = rows.writeStream.foreachBatch(add).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
