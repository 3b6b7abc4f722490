"""Keeps two JVMs from committing to one table at the same time.

On a file system Delta looks whether the next version is there and then renames its file into place. A JVM that is stopped
between the two (a suspended machine, SIGSTOP) would replace what another has committed meanwhile when it wakes. So every commit
of ours holds a lock on a file in the table's folder. The lock is the JVM's own: it falls with the JVM, and not before. A thread
that holds it may take it again: maintenance does, when it must come through beside a stream that is quicker.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from include.contract.exit_class import ExitClass, StreamFailure
from jobs.java_class import java_class

FILE = "_tidemark.lock"  # readers and VACUUM pass over names that begin so
PATIENCE_SECONDS = 30  # a commit takes a second; whoever holds it for longer is stopped
LOOK_SECONDS = 0.05
_of_this_thread = threading.local()


class TableLocked(StreamFailure):
    """Another process is in the middle of a commit and does not come to its end."""

    exit_class = ExitClass.INFRASTRUCTURE


@contextmanager
def commit_lock(spark: SparkSession, table: str) -> Iterator[None]:
    held: set[str] = _of_this_thread.__dict__.setdefault("tables", set())
    if table in held:
        yield
        return
    Path(table).mkdir(parents=True, exist_ok=True)
    file = java_class(spark, "java.io.RandomAccessFile")(f"{table}/{FILE}", "rw")
    try:
        lock = _take(file.getChannel(), table, time.monotonic() + PATIENCE_SECONDS)
        held.add(table)
        try:
            yield
        finally:
            held.discard(table)
            lock.release()
    finally:
        file.close()


def _take(channel: Any, table: str, deadline: float) -> Any:
    while (lock := _try(channel)) is None:
        if time.monotonic() > deadline:
            raise TableLocked(
                f"Another process holds {table}/{FILE}: it is stopped in the middle of a commit.",
                state="Nothing was committed; the sinks hold their tidemarks.",
                next_step=f"End that process (`fuser {table}/{FILE}` names it); the stream is then started again by itself.",
            )
        time.sleep(LOOK_SECONDS)
    return lock


def _try(channel: Any) -> Any | None:
    """None while another process holds it, or another thread of this JVM."""
    try:
        return channel.tryLock()
    except Py4JJavaError as error:
        if "OverlappingFileLockException" in str(error.java_exception):
            return None
        raise
