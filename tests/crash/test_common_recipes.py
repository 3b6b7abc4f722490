"""The must-fail twins of `postgres_totals` and `kafka`: the common recipes, under the same kill, give wrong totals and copies."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewTopic
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from tests.crash.common_recipe import RECIPES
from tests.outputs import OutputStream
from tests.running import PROJECT
from tests.warehouse import Warehouse, WarehouseStream
from tests.warm_jvm import lent


@pytest.mark.thorough
@pytest.mark.parametrize("is_killed", [False, True], ids=["without a kill", "killed"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_common_recipe_is_right_only_as_long_as_nothing_happens(
    recipe: str, is_killed: bool, stack: Stack, spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, kind="postgres_totals")
    warehouse.ask(
        SQL("CREATE TABLE public.{} (user_id text PRIMARY KEY, amount_cents bigint, orders bigint)").format(
            Identifier(stream.name)
        )
    )
    warehouse.ask("CREATE TABLE IF NOT EXISTS public.done (target text, batch bigint)")
    stream.send_orders(700)
    command = [sys.executable, "-m", "tests.crash.common_recipe", recipe, stream.name, stream.name, str(tmp_path / "checkpoint")]
    with lent(spark) as jvm:
        for kill in ({"KILL": "in the second batch"}, {}) if is_killed else ({},):
            done = subprocess.run(
                command,
                cwd=PROJECT,
                env=stream.variables(**jvm, **kill),
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            assert done.returncode == (-signal.SIGKILL if kill else 0), done.stderr
    there = warehouse.rows(stream.name)
    orders, cents = (sum(int(row[name]) for row in there) for name in ("orders", "amount_cents"))
    sent = sum(round(float(order["amount"]) * 100) for order in stream.orders.values())
    if is_killed:
        assert orders > 700
        assert cents > sent
    else:
        assert (orders, cents) == (700, sent)


def test_sparks_own_kafka_sink_sends_a_batch_twice(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = OutputStream(stack, tmp_path)
    stream.send(700)
    admin = stream.admin()
    admin.create_topics([NewTopic(stream.output, 4, 1)])[stream.output].result(15)
    command = [sys.executable, "-m", "tests.crash.plain_kafka", stream.name, stream.output, str(tmp_path / "checkpoint")]
    with lent(spark) as jvm:
        for kill in ({"KILL": "in the second batch"}, {}):
            variables = stream.variables(**jvm, **kill)
            done = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == (-signal.SIGKILL if kill else 0), done.stderr
    assert len(stream.outputs()) > 700
