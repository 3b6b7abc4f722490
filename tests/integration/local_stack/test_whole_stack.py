"""The whole stack, as `make up` starts it: what runs, what a person sees, what happens when a part is killed."""

import os
import signal
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from include.local_stack.home import StackHome
from include.local_stack.stack import SECRETS, Stack
from tests.conftest import FirstStart
from tests.running import command_lines, listening_addresses, processes_of, stack_command, wait_for

PARTS = ["postgres", "kafka", "api-server", "scheduler", "dag-processor", "triggerer"]
STARTED_AGAIN = {name: {name} for name in PARTS} | {"postgres": set(PARTS) - {"kafka"}}  # Airflow goes with its database


def pids(stack: Stack) -> dict[str, int]:
    return {part.name: part.process.pid for part in stack.parts if part.process}


def test_every_part_is_healthy_and_status_says_so_with_exit_code_0(stack: Stack) -> None:
    seen = stack_command(stack.home, "status")
    assert seen.returncode == 0, seen.stdout
    _, *parts = seen.stdout.partition("\n\n")[0].splitlines()
    assert [line.split()[:2] for line in parts] == [[name, "healthy"] for name in PARTS]
    assert "\nsupervision " in seen.stdout


def test_a_second_up_says_so_and_changes_nothing(stack: Stack) -> None:
    before = pids(stack)
    again = stack_command(stack.home, "up")
    assert again.returncode == 0, again.stderr
    assert "running already; nothing was changed" in again.stdout
    assert pids(stack) == before


def test_up_prints_the_address_the_user_and_where_the_password_lies(stack: Stack) -> None:
    said = stack_command(stack.home, "up").stdout
    assert f"http://127.0.0.1:{stack.ports.chosen['airflow']}" in said
    assert "admin" in said
    assert "secrets/airflow_password" in said


@pytest.mark.thorough("api-server", "dag-processor", "triggerer", "kafka", "postgres")
@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_is_killed_is_named_by_status_and_started_again_alone_by_up(stack: Stack, name: str) -> None:
    before = pids(stack)
    os.kill(before[name], signal.SIGKILL)
    part = next(part for part in stack.parts if part.name == name)
    wait_for(f"the end of {name}", lambda: not part.is_alive)

    seen = stack_command(stack.home, "status")
    row = next(line for line in seen.stdout.splitlines() if line.startswith(name))
    assert seen.returncode == 1
    assert row.split()[1] == "died"
    shown = row.split(maxsplit=5)[5].removesuffix("...")  # what stands behind part, state, port, pid and age
    assert [line for line in part.last_log_lines(1000) if line.startswith(shown)], row

    started = stack_command(stack.home, "up")
    assert started.returncode == 0, started.stderr
    after = pids(stack)
    assert {other for other in before if before[other] != after[other]} == STARTED_AGAIN[name]
    assert [part.state for part in stack.status()] == ["healthy"] * len(PARTS)


def test_down_leaves_no_process_port_or_lock_and_up_goes_on_with_the_data(stack: Stack) -> None:
    with closing(stack.postgres.connect("tidemark")) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    records_before = stack.kafka.check_health()
    token_before = stack.home.secret("airflow_password")
    ports = list(stack.ports.chosen.values())

    stopped = stack_command(stack.home, "down")
    assert stopped.returncode == 0, stopped.stderr
    assert processes_of(stack.home) == []
    assert not [port for port in ports if _is_listened_on(port)]
    assert not _locks(stack.home.folder)
    assert stack_command(stack.home, "status").returncode == 1

    started = stack_command(stack.home, "up")
    assert started.returncode == 0, started.stderr
    assert stack.home.secret("airflow_password") == token_before
    with closing(stack.postgres.connect("tidemark")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT answer FROM kept")
        assert cursor.fetchone() == (42,)
    assert _record_number(stack.kafka.check_health()) > _record_number(records_before)


def test_secrets_are_readable_by_the_owner_alone(stack: Stack) -> None:
    folder = stack.home.secret_file("")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.name: oct(file.stat().st_mode & 0o777) for file in folder.iterdir()} == dict.fromkeys(SECRETS, "0o600")


def test_no_secret_appears_in_logs_command_lines_or_output(stack: Stack, first_start: FirstStart) -> None:
    later = [stack_command(stack.home, command) for command in ("status", "up")]
    logs = [file.read_text(errors="replace") for file in stack.home.folder.rglob("*.log")]
    assert len(logs) >= len(PARTS)
    assert any("users create" in line for line in first_start.command_lines), "the moment of the password was not watched"
    seen = [first_start.said, *(done.stdout + done.stderr for done in later), *logs, *first_start.command_lines, *command_lines()]
    leaked = [name for name in SECRETS if stack.home.secret(name).rstrip("=") in "\n".join(seen)]
    assert leaked == []


def test_nothing_listens_outside_loopback(stack: Stack) -> None:
    listening = listening_addresses(processes_of(stack.home))
    assert {port for _, port in listening} >= set(stack.ports.chosen.values())
    assert {host for host, _ in listening} == {"127.0.0.1"}


def test_a_proxy_in_the_environment_gets_neither_the_password_nor_in_the_way(stack: Stack) -> None:
    nowhere = "http://127.0.0.1:9"
    assert stack_command(stack.home, "status", http_proxy=nowhere, HTTP_PROXY=nowhere).returncode == 0


def test_logs_shows_one_part_and_refuses_an_unknown_one_with_the_names(stack: Stack) -> None:
    shown = stack_command(stack.home, "logs", "kafka", "--lines", "5")
    assert shown.returncode == 0
    assert len(shown.stdout.splitlines()) == 6
    refused = stack_command(stack.home, "logs", "kafak")
    assert refused.returncode == 1
    assert "postgres, kafka, api-server" in refused.stderr


def test_a_second_stack_beside_it_has_its_own_ports_and_stops_alone(stack: Stack, small_stack: Stack) -> None:
    before = pids(stack)
    small_stack.up()
    assert not set(small_stack.ports.chosen.values()) & set(stack.ports.chosen.values())
    small_stack.down()
    assert pids(stack) == before
    assert all(part.is_healthy for part in stack.status())


def test_a_command_that_finds_the_stack_busy_does_nothing_and_says_so(stack: Stack) -> None:
    with stack.home.only_one_at_a_time():
        refused = stack_command(stack.home, "down")
    assert refused.returncode == 1
    assert "StackBusy" in refused.stderr
    assert all(part.is_alive for part in stack.parts)


def _is_listened_on(port: int) -> bool:
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in psutil.net_connections(kind="tcp")
    )


def _locks(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.suffix in (".lock", ".pid") or file.name == ".lock"]


def _record_number(health: str) -> int:
    return int(health.split()[1])


def test_a_status_of_no_stack_says_what_to_run(tmp_path: Path) -> None:
    seen = stack_command(StackHome(tmp_path / "nothing"), "status")
    assert seen.returncode == 1
    assert "make up" in seen.stdout
    assert not (tmp_path / "nothing").exists()
