"""Runs the streaming query until it fails or is asked to stop; a stop lets the batch in hand finish.

Asked by a signal to this process or through the control database; both set the same flag. The first batch that finds it set
does not begin. Between batches nothing has to be finished, so the query is stopped at once. A second signal ends now.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from include.contract.exit_class import ExitClass, StreamFailure
from jobs.java_class import java_class

KILLED_BY_SIGTERM = 143
LOOK_SECONDS = 0.2
MICRO_BATCHES = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


STATE = "The sinks hold their tidemarks."


class EndedUnasked(StreamFailure):
    """Somebody stopped the Spark context from outside."""

    exit_class = ExitClass.INFRASTRUCTURE


class StopAsked(Exception):
    """Ends the query between two batches."""


class QueryLifecycle:
    def __init__(self) -> None:
        self._state = threading.Condition()  # its lock may be taken twice: a signal comes in the thread that waits here
        self._in_batch = False
        self._stopping: str | None = None
        self._failure: BaseException | None = None

    @property
    def is_stopping(self) -> bool:
        return self._stopping is not None

    def ask_to_stop(self, why: str) -> None:
        with self._state:
            if self._stopping is None:
                print(f"Stopping: {why}. The batch in hand is finished first.", flush=True)
                self._stopping = why
                self._state.notify_all()

    def hear_signals(self) -> None:
        def heard(number: int, _: Any) -> None:
            if self._stopping is not None:
                os._exit(KILLED_BY_SIGTERM)
            self.ask_to_stop(signal.Signals(number).name)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, heard)

    def around(self, deliver: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """What Spark calls for each batch. The failure is kept as it was raised: Spark makes text of it."""

        def batch(records: DataFrame, number: int) -> None:
            with self._state:
                if self._stopping is not None:
                    raise StopAsked(self._stopping)
                self._in_batch = True
            try:
                deliver(records, number)
            except BaseException as failure:
                self._failure = failure
                raise
            finally:
                with self._state:
                    self._in_batch = False
                    self._state.notify_all()

        return batch

    def wait(self, query: StreamingQuery, *, ends_by_itself: bool) -> None:
        """Returns when the query was stopped as asked; raises what a batch raised, or what Spark says."""
        while query.isActive:
            with self._state:
                may_stop = self._state.wait_for(lambda: self._stopping is not None and not self._in_batch, LOOK_SECONDS)
            if may_stop and query.status["message"].startswith("Waiting"):
                query.stop()  # idle; otherwise Spark comes to the next batch by itself, which does not begin
        if self._failure is not None:
            raise self._failure
        if self._stopping is None and (error := query.exception()) is not None:
            raise error
        if self._stopping is None and not ends_by_itself:
            raise EndedUnasked("Spark ended the query, though nobody asked for it and no batch failed.", state=STATE)


def silence_spark(spark: SparkSession) -> None:
    """Spark would print the traceback of the exception by which a batch, or a stop, ends the query; its end is told by us."""
    off = java_class(spark, "org.apache.logging.log4j.Level").OFF
    java_class(spark, "org.apache.logging.log4j.core.config.Configurator").setLevel(MICRO_BATCHES, off)
