"""What all tests share: one whole stack, one without Airflow and one Spark session per run, in folders with an awkward name."""

import gc
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from psycopg2.sql import SQL, Identifier
from pyspark.sql import SparkSession
from xdist.scheduler import LoadScopeScheduling

from include.control.database import ControlDatabase
from include.local_stack.home import StackHome
from include.local_stack.java import FOR_SHORT_LIVES
from include.local_stack.stack import Stack
from jobs.java_class import java_class
from jobs.session import open_session
from tests.running import PROJECT, command_lines, stack_command, watching
from tests.warehouse import Warehouse

os.environ.setdefault("JAVA_TOOL_OPTIONS", FOR_SHORT_LIVES)
# For the JVM that most tests share: half of the files that Hadoop makes on a disk are checksums of the others, and for each file
# it starts a `chmod`. Six rounds of short drives took 1.8 s of a core for these instead of 3.0 s. Drivers of their own have them.
WITHOUT_CHECKSUM_FILES = "-Dspark.hadoop.fs.file.impl=org.apache.hadoop.fs.RawLocalFileSystem"
STACK_WITH_AIRFLOW = pytest.StashKey[Callable[[], object]]()  # how to stop it
NEEDS_AIRFLOW = (
    "dags",
    "integration/housekeeping/test_airflow_runs",
    "integration/housekeeping/test_dag",
    "integration/local_stack/test_check",
    "integration/local_stack/test_whole",
    "integration/supervision/test_kept",
    "integration/supervision/test_runbooks",
    "integration/supervision/test_standalone",
)


class FileByFile(LoadScopeScheduling):
    """One worker has all tests that need the whole stack, which mostly wait; the others take file by file, and whoever is through
    first goes on with what is left: it starts what it needs when it comes to that."""

    def _split_scope(self, nodeid: str) -> str:
        return "with Airflow" if needs_airflow(nodeid) else nodeid.partition("::")[0]


def needs_airflow(nodeid: str) -> bool:
    return nodeid.removeprefix("tests/").startswith(NEEDS_AIRFLOW)


@pytest.hookimpl(trylast=True)  # what the last of them leaves is cleared away by then
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Airflow takes a third of a core while it only waits: after the last test that needs it, it is stopped."""
    has_them_together = item.config.getoption("dist") == "load" and hasattr(item.config, "workerinput")  # see FileByFile
    if has_them_together and needs_airflow(item.nodeid) and nextitem is not None and not needs_airflow(nextitem.nodeid):
        item.session.stash.get(STACK_WITH_AIRFLOW, lambda: None)()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileByFile | None:
    """None, so that xdist asks its own, if another way is asked for than what `-n` alone means: one long file for all workers."""
    return FileByFile(config, log) if config.getvalue("dist") == "load" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write generated documents anew instead of comparing them")
    parser.addoption(
        "--thorough", action="store_true", help="also rarer cases, and what another test shows on another part, kind or boundary"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--thorough"):
        return
    left_out = [item for item in items if is_thorough(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def is_thorough(item: pytest.Item) -> bool:
    """The whole of a test, or the cases that its mark names."""
    mark = item.get_closest_marker("thorough")
    return mark is not None and (not mark.args or item.callspec.id in mark.args)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class FirstStart:
    """The very first `up` of the shared stack, with everything it said and every command line there was meanwhile."""

    home: StackHome
    exit_code: int
    said: str
    command_lines: set[str]


@pytest.fixture(scope="session")
def first_start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstStart]:
    home = StackHome(tmp_path_factory.mktemp("stack") / "où, with a space")
    for folder in ("schemas", "streams"):
        shutil.copytree(PROJECT / "config" / folder, home.config / folder)
    switch_off(home.config / "streams")
    try:
        with watching(command_lines, every_seconds=0.02) as seen:
            done = stack_command(home, "up")
        request.session.stash[STACK_WITH_AIRFLOW] = Stack(home).down
        yield FirstStart(home, done.returncode, done.stdout + done.stderr, seen)
    finally:
        Stack(home).down()


def switch_off(streams: Path) -> None:
    """The shipped streams are there, for the runbooks to list; but a driver of theirs would only take room."""
    for file in streams.glob("*.yaml"):
        file.write_text(f"enabled: false\n{file.read_text()}")


@pytest.fixture(scope="session")
def stack(first_start: FirstStart) -> Stack:
    """PostgreSQL, Kafka and Airflow, running. A test that harms a part mends it."""
    assert first_start.exit_code == 0, first_start.said
    return Stack(first_start.home)


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """PostgreSQL and Kafka without Airflow, which would take a good part of a core from tests that do not need it."""
    ground = Stack(StackHome(tmp_path_factory.mktemp("ground") / "où, with a space"), with_airflow=False)
    try:
        ground.up()
        yield ground
    finally:
        ground.down()


@pytest.fixture(scope="session")
def warehouse(ground: Stack) -> Warehouse:
    return Warehouse(ground)


@pytest.fixture
def own_control(ground: Stack) -> Iterator[ControlDatabase]:
    """A control database that neither the stack's supervision nor another test looks at, migrated and otherwise empty."""
    name = Identifier(database := f"control_{uuid.uuid4().hex[:8]}")
    with closing(ground.postgres.connect("postgres")) as connection, connection.cursor() as cursor:
        connection.autocommit = True  # databases are made and dropped outside a transaction
        cursor.execute(SQL("CREATE DATABASE {}").format(name))
        control = ControlDatabase(ground.postgres.connection(database))
        control.migrate()
        yield control
        cursor.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def small_stack(tmp_path: Path) -> Iterator[Stack]:
    """PostgreSQL and Kafka alone, not yet started: for tests about starting and stopping."""
    stack = Stack(StackHome(tmp_path / "small stack"), with_airflow=False)
    try:
        yield stack
    finally:
        stack.down()


@pytest.fixture(scope="session")
def spark(ground: Stack) -> Iterator[SparkSession]:
    """One session for all tests, opened in the environment that a job finds. Other tests never see that."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ground.job_environment().items():
            patch.setenv(name, value)
        patch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ['JAVA_TOOL_OPTIONS']} {WITHOUT_CHECKSUM_FILES}")
        session = open_session("tests")
    gateway = session.sparkContext._gateway
    gc.freeze()  # what is there by now stays to the end: only what tests make is looked through after each of them
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when this does; otherwise only some time after the tests
    gateway.proc.wait(30)


@pytest.fixture(autouse=True)
def _forgotten_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delta remembers every table that a session has seen, with its plans, for an hour: some hundred tests fill the heap, and
    then the JVM does little else than look for free memory."""
    yield
    if "spark" in request.fixturenames:
        gc.collect()  # frames that nobody has any more are let go in the JVM too
        java_class(request.getfixturevalue("spark"), "org.apache.spark.sql.delta.DeltaLog").clearCache()
