"""The smoke job, started the way everything is started: by Airflow, through spark-submit, on the real parts."""

import re
import uuid

import pytest
from deltalake import DeltaTable

from include.local_stack.stack import Stack
from jobs.check_deployment import Check, RecordsMissing, judge
from tests.running import listening_addresses, processes_of, watching

RECORDS = 5_000


@pytest.fixture(scope="module")
def hosts_listened_on() -> set[str]:
    return set()


@pytest.fixture(scope="module")
def run(stack: Stack, hosts_listened_on: set[str]) -> str:
    run_id = f"test-{uuid.uuid4().hex}"
    look = lambda: {host for host, _ in listening_addresses(processes_of(stack.home))}  # noqa: E731
    with watching(look, every_seconds=0.5) as seen:
        stack.api_server.run_dag("check_deployment", run_id, {"records": RECORDS}, 300)
    hosts_listened_on |= seen
    return run_id


def test_every_record_comes_through_kafka_spark_and_delta_once(stack: Stack, run: str) -> None:
    table = DeltaTable(stack.home.lake / "check_deployment" / f"{run}-1" / "table").to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == list(range(RECORDS))
    assert table["worker"].unique().to_pylist() == ["jobs.python_daemon"]


def test_the_log_of_the_task_ends_with_what_was_counted_and_holds_no_secret(stack: Stack, run: str) -> None:
    (log,) = stack.home.data("airflow").glob(f"logs/**/run_id={run}/**/*.log")
    assert f"sent {RECORDS:,}, came back {RECORDS:,}, of them distinct {RECORDS:,}" in log.read_text()
    secrets = {file.name: file.read_text().strip("=\n") for file in stack.home.secret_file("").iterdir()}
    assert [name for name, secret in secrets.items() if secret in log.read_text()] == []


def test_a_driver_listens_on_loopback_alone(run: str, hosts_listened_on: set[str]) -> None:
    assert hosts_listened_on == {"127.0.0.1"}


@pytest.mark.parametrize("counted", [(4_999, 4_999), (5_001, 5_000), (5_000, 4_999)], ids=["lost", "twice", "both"])
def test_a_lost_or_doubled_record_fails_the_check_with_the_numbers(counted: tuple[int, int]) -> None:
    check = Check(run="some-run", records=RECORDS, kafka="unused", folder="lake/some-run")
    with pytest.raises(RecordsMissing, match=re.escape(f"5,000 records were sent; {counted[0]:,} came back, {counted[1]:,}")):
        judge(check, counted)
