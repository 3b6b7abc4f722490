"""How a driver ends: asked to stop, stopped by a record, or refused; each with its class, its record and its exit code."""

import json
import signal
import time
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.control.generations import write_launch
from include.control.progress import request_stop
from include.local_stack.stack import Stack
from jobs.exits import classify, end_of_jvm
from jobs.poison import PoisonRecord
from jobs.row_shape import ExpressionRefused
from jobs.take_over import StartRefused
from tests.running import wait_for
from tests.streams import TrialStream, exit_class_of
from tests.warm_jvm import lent


def exits(stream: TrialStream) -> list[tuple[str, int, dict[str, object]]]:
    with ControlDatabase(stream.stack.postgres.connection("tidemark")).transaction() as cursor:
        cursor.execute("SELECT class, exit_code, evidence FROM driver_exit WHERE stream = %s ORDER BY ended_at", [stream.name])
        return cursor.fetchall()


def test_sigterm_lets_the_batch_in_hand_finish_and_ends_with_0(stack: Stack, tmp_path: Path) -> None:
    """Stopped inside its second batch, asked to end, woken: that batch is whole, and no other begins."""
    stream = TrialStream(stack, tmp_path)
    stream.send(1200)
    driver = stream.start(failpoint="sink.in_write=stop@2")
    wait_for("the driver to be inside its second batch", lambda: "failpoint sink.in_write" in stream.log(), 120)
    driver.send_signal(signal.SIGTERM)
    driver.send_signal(signal.SIGCONT)
    assert driver.wait(60) == 0, stream.log()
    assert [note["tidemark"]["batch"] for note in stream.notes() if note["kind"] == "batch"] == [0, 1]
    assert "Stopping: SIGTERM" in stream.log()
    assert "Traceback" not in stream.log()
    assert exits(stream) == [("stopped", 0, {})]


def test_a_second_sigterm_ends_now_and_an_idle_stream_stops_at_once(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.write_file(trigger="10 minutes")
    stream.send(30)
    with lent(spark) as jvm:
        driver = stream.start(jvm=jvm)
        wait_for("the first batch", lambda: "batch     0:" in stream.log(), 120)
        asked = time.monotonic()
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(60) == 0, stream.log()
        assert time.monotonic() - asked < 30  # the next trigger is ten minutes away
    stream.send(30)
    with lent(spark) as jvm:
        stuck = stream.start(failpoint="sink.in_write=sleep", jvm=jvm)
        wait_for("the driver to be inside its batch", lambda: "failpoint sink.in_write" in stream.log(), 120)
        stuck.send_signal(signal.SIGTERM)
        wait_for("the first signal to be heard", lambda: stream.log().count("Stopping: SIGTERM") == 2, 30)
        stuck.send_signal(signal.SIGTERM)
        assert stuck.wait(30) == 143, stream.log()


def test_a_stop_request_in_the_control_database_stops_this_generation_alone(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(30)
    with stream.running(spark) as running:
        stream.wait_until_delivered()
        with ControlDatabase(stack.postgres.connection("tidemark")).transaction() as cursor:
            request_stop(cursor, stream.name, 1, asked_by="on call", reason="a test")
        wait_for("the driver to stop", lambda: exits(stream) == [("stopped", 0, {})], 60)
        assert running.failure is None
    stream.send(30)
    stream.run(spark)
    assert stream.problems() == []


def test_a_record_on_which_an_expression_fails_is_named(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.write_file(select={"day": "date(ts)", "number": "cast(note as int)"})
    stream.send(100)
    producer = stream.producer()
    poison = {"event_id": "e", "user_id": "u", "amount": 1, "ts": "2026-01-02T03:04:05Z", "note": "ma\0ny"}
    producer.produce(stream.name, json.dumps(poison).encode(), partition=2)
    producer.flush(15)
    stream.send(50)
    with pytest.raises(PoisonRecord, match=r"fails on partition 2, offset 33: .*CAST_INVALID_INPUT") as stopped:
        stream.run(spark)
    assert (stopped.value.evidence["partition"], stopped.value.evidence["offset"]) == (2, 33)
    assert exits(stream)[0][:2] == ("poison", ExitClass.POISON.code)
    assert exits(stream)[0][2]["offset"] == 33


def test_a_line_separator_in_a_text_does_not_disturb_the_tables_log(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """Delta writes it as it is into the statistics of a file."""
    stream = TrialStream(stack, tmp_path, partitions=1)
    producer = stream.producer()
    strange = {"event_id": "\u2028", "user_id": "\u0085", "amount": 1, "ts": "2026-01-02T03:04:05Z", "note": "\u2029"}
    producer.produce(stream.name, json.dumps(strange).encode(), partition=0)
    producer.flush(15)
    for _ in range(2):
        stream.run(spark)
    assert [row["note"] for row in stream.rows()] == ["\u2029"]


def test_where_protects_select(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    """A row that is filtered, or bad, is not computed on."""
    stream = TrialStream(stack, tmp_path)
    stream.write_file(where="amount > 0", select={"day": "date(ts)", "share": "100 / (amount + 5)"})
    stream.send(20, filtered=20, bad=8)  # the filtered ones have amount -5
    stream.run(spark)
    assert stream.problems() == []


def test_a_driver_that_cannot_start_says_so_in_a_sentence_with_the_exit_code_of_its_class(stack: Stack, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.write_file(where="amuont > 0")
    driver = stream.start()
    assert driver.wait(60) == ExitClass.CONFIGURATION.code
    assert "configuration: StreamFilesInvalid" in stream.log()
    assert "Did you mean 'amount'?" in stream.log()
    assert "Traceback" not in stream.log()


def test_a_launched_driver_that_is_refused_at_once_says_so(stack: Stack, tmp_path: Path) -> None:
    """Otherwise supervision would find it gone without a word, and try again."""
    stream = TrialStream(stack, tmp_path)
    control = ControlDatabase(stack.postgres.connection("tidemark"))
    control.migrate()
    launch = write_launch(control, stream.name, asked_by="a test", reason="to be refused", approvals={}).id
    stream.write_file(where="amuont > 0")
    assert stream.start("--launch", launch).wait(60) == ExitClass.CONFIGURATION.code
    assert exits(stream) == [("configuration", 10, {})]


def test_without_a_control_database_nothing_is_started(stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = TrialStream(stack, tmp_path)
    variables = stream.variables()
    nowhere = json.dumps(json.loads(variables["AIRFLOW_CONN_TIDEMARK_CONTROL"]) | {"port": 1})
    monkeypatch.setattr(stream, "variables", lambda **more: {**variables, "AIRFLOW_CONN_TIDEMARK_CONTROL": nowhere})
    driver = stream.start()
    assert driver.wait(60) == ExitClass.INFRASTRUCTURE.code
    assert "ControlDatabaseDown" in stream.log()
    assert variables["AIRFLOW_CONN_TIDEMARK_CONTROL"].split('"password": "')[1].split('"')[0] not in stream.log()


def test_a_missing_topic_is_a_matter_of_configuration(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.write_file(source__topic="no_such_topic")
    with pytest.raises(Exception, match="There is no topic 'no_such_topic'") as refused:
        stream.run(spark)
    assert exit_class_of(refused.value) is ExitClass.CONFIGURATION


def test_an_expression_that_spark_reads_otherwise_is_refused(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.write_file(select={"day": "date(ts)", "wrong": "date_add(note, ts)"})
    with pytest.raises(ExpressionRefused, match="Spark cannot read it"):
        stream.run(spark)


CLASSES = {
    "java.lang.OutOfMemoryError: Java heap space": ExitClass.OUT_OF_MEMORY,
    "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012": ExitClass.POISON,
    "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost": ExitClass.RETENTION_GAP,
    "org.apache.kafka.common.errors.TimeoutException: Timed out": ExitClass.INFRASTRUCTURE,
    "java.io.IOException: No space left on device": ExitClass.INFRASTRUCTURE,
    "[DELTA_FAILED_TO_MERGE_FIELDS] Failed to merge fields": ExitClass.SCHEMA,
    "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] Error reading state": ExitClass.CHECKPOINT_DAMAGE,
    "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] Caused by: java.io.IOException: No space left on device": ExitClass.INFRASTRUCTURE,
    "[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] RocksDB could not be acquired": ExitClass.INFRASTRUCTURE,
    "[CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY] Could not load": ExitClass.OUT_OF_MEMORY,
    "[STATE_STORE_COMMIT_VALIDATION_FAILED] Expected 4 commits but got 0": ExitClass.CHECKPOINT_DAMAGE,
    "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match": ExitClass.CHECKPOINT_DAMAGE,
    "[STDS_FAILED_TO_READ_OPERATOR_METADATA] Failed to read the operator metadata": ExitClass.CHECKPOINT_DAMAGE,
    "org.rocksdb.RocksDBException: Corruption: block checksum mismatch": ExitClass.CHECKPOINT_DAMAGE,
    "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/c/c000001/state/0/1/3.changelog": ExitClass.CHECKPOINT_DAMAGE,
    "[CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED] Checksum verification failed": ExitClass.CHECKPOINT_DAMAGE,
    "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_4_1 not found!": ExitClass.INFRASTRUCTURE,
    "something else": ExitClass.UNKNOWN,
}


@pytest.mark.parametrize("text", list(CLASSES))
def test_what_spark_says_is_given_a_class(text: str) -> None:
    assert classify(RuntimeError(text)) is CLASSES[text]


def test_a_jvm_that_is_killed_is_told_as_such(stack: Stack, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(30)
    driver = stream.start()
    wait_for("the first batch", lambda: "batch     0:" in stream.log(), 120)
    (jvm,) = [child for child in psutil.Process(driver.pid).children() if child.name() == "java"]
    jvm.kill()
    assert driver.wait(60) == ExitClass.KILLED.code, stream.log()
    assert "JvmEnded: The driver's JVM was killed by SIGKILL." in stream.log()
    assert exits(stream) == [("killed", 20, {})]


def test_a_jvm_that_ends_itself_for_lack_of_memory_is_out_of_memory() -> None:
    assert "is gone" in end_of_jvm(None).happened
    failure = end_of_jvm(52)
    assert failure is not None
    assert failure.exit_class is ExitClass.OUT_OF_MEMORY


def test_every_class_has_its_own_code_and_next_step() -> None:
    assert len({one.code for one in ExitClass}) == len(ExitClass) == len({one.next_step for one in ExitClass})


def test_a_refused_start_is_recorded_with_its_numbers(stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    stream = TrialStream(stack, tmp_path)
    stream.send(60)
    stream.run(spark)
    (stream.config / "streams" / f"{stream.name}.yaml").write_text(
        (stream.config / "streams" / f"{stream.name}.yaml")
        .read_text()
        .replace("  lake:", "  another:\n    kind: delta_append\n    table: another_" + stream.name + "\n  lake:")
    )
    with pytest.raises(StartRefused, match="Sink another is new, but the stream has run before without it"):
        stream.run(spark)
    assert [row[0] for row in exits(stream)] == ["stopped", "configuration"]
