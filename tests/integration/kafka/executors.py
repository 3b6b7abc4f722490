"""Python workers of Spark's with an environment of their own: stopped in mid-slot, or running another copy of the product."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from jobs.failpoints import VARIABLE, Failpoint
from tests.running import PROJECT, wait_for


@contextmanager
def workers_with(spark: SparkSession, **variables: str) -> Iterator[None]:
    """Workers that others use go on as they are: Spark keeps them apart by their environment."""
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment.update(variables)
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)


@contextmanager
def patched_workers(spark: SparkSession, folder: Path, file: str, text: str, instead: str) -> Iterator[None]:
    """Slots are sent by a copy of the product in which something else is written."""
    for tree in ("include", "jobs"):
        shutil.copytree(PROJECT / tree, folder / tree, ignore=shutil.ignore_patterns("__pycache__"))
    content = (folder / file).read_text()
    assert content.count(text) == 1, f"{file} has {content.count(text)} times {text!r}"
    (folder / file).write_text(content.replace(text, instead))
    not_where_the_jvm_works = {"PYTHONSAFEPATH": "1"}  # which is the project, and would come before any path
    with workers_with(spark, PYTHONPATH=str(folder), **not_where_the_jvm_works):
        yield


class StoppedWorkers:
    def __init__(self, jvm: psutil.Process) -> None:
        self._jvm = jvm

    def wait(self, seconds: float = 60) -> None:
        wait_for("a worker to stop at its failpoint", lambda: bool(self._stopped()), seconds)

    def go_on(self) -> None:
        for worker in self._stopped():
            worker.resume()

    def _stopped(self) -> list[psutil.Process]:
        found = []
        for process in self._jvm.children(recursive=True):
            try:
                if process.status() == psutil.STATUS_STOPPED:
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found


@contextmanager
def stopping_at(spark: SparkSession, point: Failpoint) -> Iterator[StoppedWorkers]:
    """The first slot of each worker that comes by."""
    workers = StoppedWorkers(psutil.Process(spark.sparkContext._gateway.proc.pid))
    with workers_with(spark, **{VARIABLE: f"{point}=stop", "FOR": uuid.uuid4().hex}):  # of others, none has come by yet
        try:
            yield workers
        finally:
            workers.go_on()
