"""A table that is there is used as it is, or refused with the statements that would mend it."""

import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from include.tidemarks.postgres_connection import PrivilegeMissing
from include.tidemarks.postgres_log import BOOKS
from include.tidemarks.sink_state import ForeignTidemark, RowsWithoutTidemark, TidemarkLost
from jobs.postgres.table_check import TableGone
from jobs.sink import SchemaDiffers
from tests.running import wait_for
from tests.streams import exit_class_of
from tests.warehouse import Warehouse, WarehouseStream

WHOLE = (
    "event_id text NOT NULL, user_id text, amount numeric(12,2), ts timestamptz, note text, day date, amount_cents bigint,"
    " _topic text, _topic_epoch integer, _partition integer, _offset bigint, _kafka_timestamp timestamptz, _generation bigint,"
    " _batch_id bigint"
)
COMPUTED = WHOLE.replace("amount_cents bigint", "amount_cents bigint GENERATED ALWAYS AS (1) STORED")
UNIQUE = "CREATE UNIQUE INDEX ON public.{0} (event_id)"
RULE = "; CREATE RULE r AS ON INSERT TO public.{0} DO ALSO NOTHING"
TRIGGER = "; CREATE TRIGGER t BEFORE INSERT ON public.{0} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
DIFFERENT = {
    "a missing column": (WHOLE.replace(" note text,", ""), UNIQUE, 'ALTER TABLE "public"."{}" ADD COLUMN "note" text'),
    "a wrong type": (
        WHOLE.replace("day date", "day text"),
        UNIQUE,
        'ALTER TABLE "public"."{}" ALTER COLUMN "day" TYPE date USING "day"::date',
    ),
    "times cut to seconds": (
        WHOLE.replace("ts timestamptz", "ts timestamptz(0)"),
        UNIQUE,
        'ALTER COLUMN "ts" TYPE timestamp with time zone USING',
    ),
    "a column that the database computes": (COMPUTED, UNIQUE, 'ALTER COLUMN "amount_cents" DROP EXPRESSION'),
    "a rule": (WHOLE, UNIQUE + RULE, 'DISABLE RULE "r"'),
    "a trigger that may drop rows": (WHOLE, UNIQUE + TRIGGER, 'DISABLE TRIGGER "t"'),
    "no index on the key": (WHOLE, None, 'CREATE UNIQUE INDEX ON "public"."{}" ("event_id")'),
    "a partial index": (WHOLE, UNIQUE + " WHERE user_id <> ''", 'CREATE UNIQUE INDEX ON "public"."{}" ("event_id")'),
    "a wider index": (WHOLE, UNIQUE.replace("(event_id)", "(event_id, day)"), "CREATE UNIQUE INDEX"),
    "a key that may be NULL": (WHOLE.replace(" NOT NULL", ""), UNIQUE, 'ALTER COLUMN "event_id" SET NOT NULL'),
    "a column that nobody fills": (WHOLE + ", mine text NOT NULL", UNIQUE, 'ALTER COLUMN "mine" DROP NOT NULL'),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_table_that_does_not_fit_is_refused_with_what_mends_it(
    case: str, stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    """And when that was done, the stream starts."""
    columns, index, mend = DIFFERENT[case]
    stream = WarehouseStream(stack, tmp_path)
    table = Identifier(stream.name)
    warehouse.ask(SQL("CREATE TABLE public.{} (" + columns + ")").format(table))
    if index:
        warehouse.ask(SQL(index).format(table))
    stream.send_orders(10)
    with pytest.raises(SchemaDiffers) as refusal:
        stream.run(spark)
    assert exit_class_of(refusal.value) is ExitClass.SCHEMA
    (statement,) = refusal.value.evidence["statements"]
    assert mend.format(stream.name) in statement
    assert warehouse.rows(stream.name) == []
    warehouse.ask(statement)
    stream.run(spark)
    assert warehouse.problems(stream) == []


def test_another_schema_a_partitioned_table_and_odd_names_work(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path)
    columns = WHOLE.replace("event_id", '"Select"').replace("day date", '"group" date NOT NULL')
    stream.more = {"table": f"Odd_{stream.name}.Order", "key": ["Select", "group"]}
    schema = Identifier(f"Odd_{stream.name}")
    stream.write_file(
        select={"Select": "event_id", "group": "date(ts)", "amount_cents": "1L"},
        keep=["user_id", "amount", "ts", "note"],
        reconcile__unique=[],
    )
    stream.send_orders(50)
    with pytest.raises(SchemaDiffers, match="CREATE SCHEMA"):
        stream.run(spark)
    warehouse.ask(SQL("CREATE SCHEMA {}").format(schema))
    warehouse.ask(
        SQL('CREATE TABLE {}."Order" (' + columns + ', PRIMARY KEY ("Select", "group")) PARTITION BY RANGE ("group")').format(
            schema
        )
    )
    warehouse.ask(
        SQL("CREATE TABLE {0}.early PARTITION OF {0}.\"Order\" FOR VALUES FROM ('2026-01-01') TO ('2026-12-31')").format(schema)
    )
    stream.run(spark)
    rows = warehouse.rows(f"Odd_{stream.name}.Order")
    assert {row["Select"] for row in rows} == {order["event_id"] for order in stream.orders.values()}


def test_a_user_without_privileges_is_told_which(stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    stream = WarehouseStream(stack, tmp_path)
    user = Identifier(f"user_{stream.name}")
    warehouse.ask(SQL("CREATE ROLE {} LOGIN PASSWORD 'not a secret'").format(user))
    warehouse.ask(SQL("CREATE TABLE public.{} (" + WHOLE + ", PRIMARY KEY (event_id))").format(Identifier(stream.name)))
    connection = stack.postgres.connection("warehouse")
    other = type(connection)(connection.host, connection.port, f"user_{stream.name}", "not a secret", "warehouse")
    variable = {"AIRFLOW_CONN_WAREHOUSE": other.to_airflow_json("postgres")}
    warehouse.ask(BOOKS)
    stream.send_orders(10)
    with pytest.raises(PrivilegeMissing, match="permission denied for schema tidemark"):
        stream.run(spark, **variable)
    warehouse.ask(SQL("GRANT ALL ON SCHEMA tidemark TO {}").format(user))
    warehouse.ask(SQL("GRANT ALL ON ALL TABLES IN SCHEMA tidemark TO {}").format(user))
    with pytest.raises(SchemaDiffers) as refusal:
        stream.run(spark, **variable)
    assert [statement.split(" ON ")[0] for statement in refusal.value.evidence["statements"]] == [
        "GRANT SELECT",
        "GRANT INSERT",
        "GRANT UPDATE",
    ]
    assert "not a secret" not in str(refusal.value)
    for statement in refusal.value.evidence["statements"]:
        warehouse.ask(statement)
    stream.run(spark, **variable)
    assert warehouse.problems(stream) == []


def test_rows_of_nobody_a_table_of_another_and_a_lost_tidemark_are_refused(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path)
    stream.send_orders(10)
    stream.run(spark)
    other = WarehouseStream(stack, tmp_path, more={"table": stream.name})
    with pytest.raises(ForeignTidemark, match=f"holds the tidemark of {stream.name}.rows"):
        other.run(spark)
    warehouse.ask("DELETE FROM tidemark.sink_commit WHERE target = %s", f"public.{stream.name}")
    with pytest.raises(RowsWithoutTidemark, match="has rows but no tidemark"):
        stream.run(spark)
    warehouse.ask(SQL("DELETE FROM public.{}").format(Identifier(stream.name)))
    with pytest.raises(TidemarkLost, match="knows batches"):
        stream.run(spark)


def test_what_is_no_table_is_refused(stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    stream = WarehouseStream(stack, tmp_path)
    warehouse.ask(SQL("CREATE VIEW public.{} AS SELECT 1 AS event_id").format(Identifier(stream.name)))
    stream.send_orders(5)
    with pytest.raises(SchemaDiffers, match="it is no table"):
        stream.run(spark)


def test_a_schema_that_may_not_be_looked_into_is_told_with_its_grant(
    stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, more={"table": f"closed_{uuid.uuid4().hex[:8]}.orders"})
    schema, user = stream.more["table"].partition(".")[0], f"user_{stream.name}"
    warehouse.ask(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
    warehouse.ask(SQL("CREATE ROLE {} LOGIN PASSWORD 'not a secret'").format(Identifier(user)))
    warehouse.ask(BOOKS)
    for what in ("SCHEMA tidemark", "ALL TABLES IN SCHEMA tidemark"):
        warehouse.ask(SQL("GRANT ALL ON " + what + " TO {}").format(Identifier(user)))
    connection = replace(stack.postgres.connection("warehouse"), login=user, password="not a secret")  # noqa: S106
    stream.send_orders(5)
    with pytest.raises(SchemaDiffers) as refusal:
        stream.run(spark, AIRFLOW_CONN_WAREHOUSE=connection.to_airflow_json("postgres"))
    assert refusal.value.evidence["statements"] == [f'GRANT USAGE ON SCHEMA "{schema}" TO "{user}"']


def test_a_table_that_is_gone_is_not_made_anew(stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path) -> None:
    """Whatever it held would be missing, and nobody would be told; also when it goes under a running driver."""
    stream = WarehouseStream(stack, tmp_path)
    warehouse.ask(BOOKS)
    stream.send_orders(20)
    with stream.running(spark) as running:
        wait_for("the first rows", lambda: warehouse.booked(stream).get("read") == 20)
        warehouse.ask(SQL("DROP TABLE public.{}").format(Identifier(stream.name)))
        stream.send_orders(20)
        assert isinstance(running.wait_until_it_fails(), TableGone)
    with pytest.raises(TableGone, match="is gone, but its tidemark") as refusal:
        stream.run(spark)
    assert exit_class_of(refusal.value) is ExitClass.SINK_WENT_BACK
    assert warehouse.ask("SELECT to_regclass(%s) AS there", f"public.{stream.name}") == [{"there": None}]
