"""The control database: made once, filled again after any outage, and never in a stream's way."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.control.database import ControlDatabase, SchemaTooNew
from include.control.generations import keep_spec, read_approvals, take_generation, write_launch
from include.local_stack.stack import Stack
from tests.relay import Relay
from tests.running import wait_for
from tests.streams import TrialStream


@pytest.fixture
def control(stack: Stack) -> ControlDatabase:
    database = ControlDatabase(stack.postgres.connection("tidemark"))
    database.migrate()
    return database


@pytest.fixture
def relay(stack: Stack) -> Iterator[Relay]:
    relay = Relay(stack.postgres.connection("tidemark").port or 0)
    yield relay
    relay.close()


def test_a_stream_goes_on_while_the_database_is_down_and_catches_up(
    stack: Stack, spark: SparkSession, control: ControlDatabase, relay: Relay, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(60)
    connection = json.loads(stream.variables()["AIRFLOW_CONN_TIDEMARK_CONTROL"]) | {"port": relay.port}
    with stream.running(spark, AIRFLOW_CONN_TIDEMARK_CONTROL=json.dumps(connection)):
        stream.wait_until_delivered()
        relay.cut()
        for _ in range(2):
            stream.send(60)
            stream.wait_until_delivered()
        assert _delivered(control, stream) <= 60
        relay.mend()
        wait_for("the ledger's copy to be whole", lambda: _delivered(control, stream) == 180, 30)
    said = capsys.readouterr().out
    assert "was not told" in said
    assert "The control database is back." in said
    with control.transaction() as cursor:
        cursor.execute("SELECT sum(read), count(*) FROM progress WHERE stream = %s", [stream.name])
        read, batches = cursor.fetchone() or (0, 0)
        assert read == 180
        cursor.execute("SELECT count(DISTINCT batch) FROM ledger WHERE stream = %s AND batch >= 0", [stream.name])
        assert cursor.fetchone() == (batches,)


def _delivered(control: ControlDatabase, stream: TrialStream) -> int:
    with control.transaction() as cursor:
        cursor.execute("SELECT coalesce(sum(delivered), 0) FROM ledger WHERE stream = %s", [stream.name])
        return int((cursor.fetchone() or (0,))[0])


def test_migrations_at_once_run_once(stack: Stack) -> None:
    with closing(stack.postgres.connect("postgres")) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("DROP DATABASE IF EXISTS migrated_at_once")
        cursor.execute("CREATE DATABASE migrated_at_once")
    database = ControlDatabase(stack.postgres.connection("migrated_at_once"))
    with ThreadPoolExecutor(4) as threads:
        for migration in [threads.submit(database.migrate) for _ in range(4)]:
            migration.result(30)
    with database.transaction() as cursor:
        cursor.execute("SELECT count(*) FROM deployment")
        assert cursor.fetchone() == (1,)


def test_a_database_of_a_newer_version_is_refused(own_control: ControlDatabase) -> None:
    with own_control.transaction() as cursor:
        cursor.execute("INSERT INTO migration (number) VALUES (9999)")
    with pytest.raises(SchemaTooNew, match="has migration 9999"):
        own_control.migrate()


def test_generations_taken_at_once_are_all_different(own_control: ControlDatabase) -> None:
    control = own_control
    launch = write_launch(control, "many", asked_by="a test", reason="a race", approvals={"losses": []}).id
    assert read_approvals(control, launch) == {"losses": []}
    numbers: list[int] = []

    def take() -> None:
        numbers.append(take_generation(control, "many", launch, "hash", 41).number)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(numbers)) == 8
    assert min(numbers) >= 42


def test_a_spec_is_kept_once(own_control: ControlDatabase) -> None:
    for _ in range(2):
        keep_spec(own_control, "kept", "hash", "snapshot")
    with own_control.transaction() as cursor:
        cursor.execute("SELECT snapshot FROM spec WHERE stream = 'kept'")
        assert cursor.fetchall() == [("snapshot",)]
