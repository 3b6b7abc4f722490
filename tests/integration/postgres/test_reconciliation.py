"""Kafka against PostgreSQL: what was delivered passes, window after window; what somebody changed is found and named (P7)."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession

from include.control.database import ControlDatabase
from include.control.windows import Verdict
from include.local_stack.stack import Stack
from jobs.sink import SchemaDiffers
from tests.integration.jobs.test_changing_topics import delete_records
from tests.integration.reconciliation.trial import Trial
from tests.warehouse import KINDS, Warehouse, WarehouseStream

CHECK = "ALTER TABLE public.{} ADD CHECK (amount < 990) NOT VALID"
INSERT_NEW, UPSERT, TOTALS = KINDS
FAULTS: dict[str, dict[str, tuple[str, str]]] = {  # by kind: what is done, and what is told of it; {0} and {1} are ids of orders
    INSERT_NEW: {
        "a row removed": ("DELETE FROM public.{table} WHERE event_id = '{0}'", r"lost in partition \d: offset [\d, to]+.*event_id {0}"),
        "a value changed": ("UPDATE public.{table} SET amount = 1.23 WHERE event_id = '{1}'", r"1 changed since they were delivered in .*event_id {1}"),
        "a row added": ("INSERT INTO public.{table} (event_id, _topic_epoch, _partition, _offset) VALUES ('copy', 1, 0, 5)", r"no coordinates stand in the table twice"),
        "a reject removed": ("DELETE FROM tidemark.reject WHERE target = 'public.{table}'", r"rejected record that is booked stands in the rejects once"),
    },
    UPSERT: {
        "a newest row removed": ("DELETE FROM public.{table} WHERE user_id = 'u3'", r"1 lost in partition \d: offset \d+ \(user_id u3"),
        "a newest row set back": ("UPDATE public.{table} SET ts = ts - interval '1 year', _offset = _offset - 1 WHERE user_id = 'u4'", r"1 older in the table than in Kafka in partition \d: offset \d+ \(user_id u4"),
    },
    TOTALS: {
        "a total changed": ("UPDATE public.{table} SET amount_cents = amount_cents + 1 WHERE user_id = 'u3'", r"the totals of user_id u3 differ: amount_cents is \d+, but \d+ by Kafka's records"),
        "a key removed": ("DELETE FROM public.{table} WHERE user_id = 'u4'", r"the totals of user_id u4 are lost"),
        "a key added": ("INSERT INTO public.{table} (user_id, orders) VALUES ('nobody', 1)", r"there are totals of user_id nobody, of whom Kafka has no record"),
    },
}  # fmt: skip


@pytest.fixture
def begin(
    stack: Stack, spark: SparkSession, own_control: ControlDatabase, warehouse: Warehouse, tmp_path: Path
) -> Callable[[str], Trial]:
    def begin(kind: str) -> Trial:
        """The first rows are taken, then the table refuses some."""
        stream = WarehouseStream(stack, tmp_path, kind=kind, own_control=own_control)
        trial = Trial(stack, spark, tmp_path, own_control, stream)
        stream.send_orders(100)
        stream.run(spark)
        if kind == INSERT_NEW:
            warehouse.ask(SQL(CHECK).format(Identifier(stream.name)))
        stream.send_orders(400)
        stream.send(0, bad=3, filtered=4)
        stream.run(spark)
        return trial

    return begin


@pytest.mark.thorough("postgres_upsert")
@pytest.mark.parametrize("kind", KINDS)
def test_each_window_passes_and_the_next_one_begins_behind_it(
    kind: str, begin: Callable[[str], Trial], spark: SparkSession, warehouse: Warehouse
) -> None:
    trial = begin(kind)
    stream = trial.stream
    assert isinstance(stream, WarehouseStream)
    first = trial.judged()
    assert (first.verdict, first.offsets) == (Verdict.PASSED, 507), first.told
    stream.send_orders(300)
    stream.run(spark)
    second = trial.judged()
    assert (second.verdict, second.offsets) == (Verdict.PASSED, 300), second.told
    assert (kind == INSERT_NEW) == bool(warehouse.rejects(stream))


@pytest.mark.thorough("postgres_upsert", "postgres_totals")
@pytest.mark.parametrize("kind", KINDS)
def test_a_start_without_records_leaves_nothing_to_judge(
    kind: str, stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path
) -> None:
    stream = WarehouseStream(stack, tmp_path, kind=kind, own_control=own_control)
    trial = Trial(stack, spark, tmp_path, own_control, stream)
    stream.run(spark)
    assert trial.reconcile() == []
    stream.send_orders(20)
    stream.run(spark)
    assert trial.judged().verdict is Verdict.PASSED
    stream.run(spark)
    assert trial.reconcile() == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_found_and_named(kind: str, begin: Callable[[str], Trial], warehouse: Warehouse) -> None:
    trial = begin(kind)
    ids = _ids(trial)
    for deed, _ in FAULTS[kind].values():
        warehouse.ask(deed.format(*ids, table=trial.stream.name))
    window = trial.judged()
    assert window.verdict is Verdict.FAILED
    unnamed = [fault for fault, (_, told) in FAULTS[kind].items() if not re.search(_filled(told, ids), window.told or "")]
    assert unnamed == [], window.told


def _ids(trial: Trial) -> list[str]:
    """Of the first orders, which the table took."""
    assert isinstance(trial.stream, WarehouseStream)
    return [str(trial.stream.orders[0, offset]["event_id"]) for offset in (0, 1)]


def _filled(told: str, ids: list[str]) -> str:
    return told.replace("{0}", ids[0]).replace("{1}", ids[1])


@pytest.mark.thorough
def test_totals_that_an_older_file_did_not_keep_are_not_judged(begin: Callable[[str], Trial], spark: SparkSession) -> None:
    trial = begin(TOTALS)
    stream = trial.stream
    assert isinstance(stream, WarehouseStream)
    stream.more = {"max": ["ts"]}
    stream.write_file()
    stream.send_orders(30)
    with pytest.raises(SchemaDiffers) as refusal:
        stream.run(spark)
    Warehouse(stream.stack).ask("; ".join(refusal.value.evidence["statements"]))
    stream.run(spark)
    window = trial.judged()
    assert window.verdict is Verdict.NOT_JUDGED
    assert "added up other totals than the file does now" in (window.told or "")


@pytest.mark.thorough
def test_totals_of_records_that_kafka_has_deleted_are_not_judged(begin: Callable[[str], Trial], spark: SparkSession) -> None:
    trial = begin(TOTALS)
    assert trial.judged().verdict is Verdict.PASSED
    delete_records(trial.stream, 0, 50)
    assert isinstance(trial.stream, WarehouseStream)
    trial.stream.send_orders(30)
    trial.stream.run(spark)
    window = trial.judged()
    assert window.verdict is Verdict.NOT_JUDGED
    assert "partition 0: Kafka begins at 50, the totals at 0" in (window.told or "")
