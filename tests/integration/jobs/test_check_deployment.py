"""The smoke job, started the way everything is started: by Airflow, through spark-submit, on the real parts."""

import re
import threading
import uuid

import psutil
import pytest
from deltalake import DeltaTable

from include.local_stack.stack import Stack
from jobs.check_deployment import Check, RecordsMissing, judge

RECORDS = 5_000


@pytest.fixture(scope="module")
def run(stack: Stack) -> str:
    run_id = f"test-{uuid.uuid4().hex}"
    stack.api_server.run_dag("check_deployment", run_id, {"records": RECORDS}, patience_seconds=300)
    return run_id


def test_every_record_comes_through_kafka_spark_and_delta_once(stack: Stack, run: str) -> None:
    table = DeltaTable(stack.home.lake / "check_deployment" / run / "table").to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == list(range(RECORDS))
    assert table["worker"].unique().to_pylist() == ["jobs.python_daemon"]


def test_the_log_of_the_task_ends_with_what_was_counted(stack: Stack, run: str) -> None:
    (log,) = stack.home.data("airflow").glob(f"logs/**/run_id={run}/**/*.log")
    assert f"sent {RECORDS:,}, came back {RECORDS:,}, of them distinct {RECORDS:,}" in log.read_text()


def test_no_secret_is_in_the_log_of_the_task(stack: Stack, run: str) -> None:
    (log,) = stack.home.data("airflow").glob(f"logs/**/run_id={run}/**/*.log")
    assert not [file.name for file in stack.home.secret_file("").iterdir() if file.read_text().strip() in log.read_text()]


@pytest.mark.parametrize("counted", [(4_999, 4_999), (5_001, 5_000), (5_000, 4_999)], ids=["lost", "twice", "both"])
def test_a_lost_or_doubled_record_fails_the_check_with_the_numbers(counted: tuple[int, int]) -> None:
    check = Check(run="some-run", records=RECORDS, kafka="unused", folder="lake/some-run")
    with pytest.raises(RecordsMissing, match=re.escape(f"5,000 records were sent; {counted[0]:,} came back, {counted[1]:,}")):
        judge(check, counted)


def test_a_driver_listens_on_loopback_alone(stack: Stack) -> None:
    listening: set[str] = set()
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(0.5):
            for process in (process for part in stack.parts for process in part.living_processes()):
                listening.update(_hosts(process))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        stack.api_server.run_dag("check_deployment", f"watched-{uuid.uuid4().hex}", {"records": 10}, patience_seconds=300)
    finally:
        finished.set()
        watcher.join()
    assert listening == {"127.0.0.1"}


def _hosts(process: psutil.Process) -> set[str]:
    try:
        found = process.net_connections(kind="tcp")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return set()
    return {connection.laddr.ip.removeprefix("::ffff:") for connection in found if connection.status == psutil.CONN_LISTEN}
