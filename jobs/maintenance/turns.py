"""How maintenance comes through beside a live stream, and the stream beside maintenance.

Who commits second to the same files loses. A batch that lost is made again by its driver, a few times. So: 1. maintenance tries
without disturbing anybody; 2. the last time it holds the table's commit lock while it works, in pieces so small that a driver's
patience does not end; 3. before its next commit it waits until a live merge has had its turn. Appends never conflict with it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from include.contract.errors import TidemarkError
from include.tidemarks.commit import LogUnreadable
from include.tidemarks.delta_log import DeltaLog
from include.tidemarks.note import Kind
from jobs.commit_lock import PATIENCE_SECONDS, commit_lock
from jobs.delta_transaction import CONFLICTS
from jobs.maintenance.choosing import Limit, TableFile, split
from jobs.maintenance.tables import MaintainedTable

TURNS = 3
LOCKED = Limit(bytes=32_000_000, files=100)  # rewritten in 1 to 3 s on 2 cores, commit included
LOCKED_SECONDS = PATIENCE_SECONDS / 2  # then it lets go, whatever a strange machine makes of the limit
LIVE_SECONDS = 60  # since its last batch; a stream whose batch is older is idle, and needs no turn
ITS_TURN_SECONDS = 10  # a batch that lost is made again in less
LOOK_SECONDS, LOOK_BACK = 0.1, 20

Attempt = Callable[[list[TableFile]], int | None]  # the version it became; None if there was nothing to do


class TableTooBusy(TidemarkError):
    """Maintenance did not come through within the time for which it may keep a stream from committing."""


def commit_in_turns(spark: SparkSession, table: MaintainedTable, group: list[TableFile], attempt: Attempt) -> int:
    """How many commits it took."""
    _give_way(table)
    for turn in range(1, TURNS):
        try:
            return 0 if attempt(group) is None else 1  # 1
        except CONFLICTS:
            print(f"  {table.name}: somebody changed the same files, turn {turn} of {TURNS} was for nothing", flush=True)
    return sum(_with_lock(spark, table, piece, attempt) for piece in split(group, LOCKED))


def _with_lock(spark: SparkSession, table: MaintainedTable, piece: list[TableFile], attempt: Attempt) -> int:
    _give_way(table)
    with commit_lock(spark, table.path), _bounded(spark, table.path):  # 2
        return 0 if attempt(piece) is None else 1


def _give_way(table: MaintainedTable) -> None:
    log, deadline = DeltaLog(table.path), time.monotonic() + ITS_TURN_SECONDS
    newest = log.newest_version() or 0
    note = log.commit(newest).note
    if table.is_merged and note is not None and note.kind is Kind.MAINTAIN and _is_live(log, newest):  # 3
        while not log.has(newest + 1) and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)


def _is_live(log: DeltaLog, version: int) -> bool:
    with suppress(LogUnreadable):  # cleaned up: it was long ago
        for commit in islice(log.standing(version), LOOK_BACK):
            if commit.note is not None and commit.note.kind is Kind.BATCH:
                return log.age_seconds(commit.version) < LIVE_SECONDS
    return False


@contextmanager
def _bounded(spark: SparkSession, path: str) -> Iterator[None]:
    tag = f"maintain {path}".replace(",", " ")  # which Spark takes for the end of a tag
    spark.sparkContext.addJobTag(tag)
    alarm = threading.Timer(LOCKED_SECONDS, spark.sparkContext.cancelJobsWithTag, [tag])
    alarm.start()
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if isinstance(error, CONFLICTS) or alarm.is_alive():
            raise
        raise TableTooBusy(
            f"{path} could not be maintained while its stream waited: {LOCKED_SECONDS:.0f} s were not enough.",
            state="What was committed before is whole; the stream goes on.",
            next_step="Run maintain_tables when the machine has less to do, or the stream is stopped.",
        ) from error
    finally:
        alarm.cancel()
        spark.sparkContext.removeJobTag(tag)
