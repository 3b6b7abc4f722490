"""Runs one stream: takes it over from whatever drove it before, then delivers batch after batch until it is told to stop.

Submitted by the launcher, or in the foreground by `make run STREAM=x`. Its exit code is the class of its end.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from include.checkpoints.seed import check_ready
from include.contract.catalog import find_stream
from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.errors import TidemarkError
from include.contract.exit_class import ExitClass, StreamFailure
from include.contract.identity import LAUNCH_VARIABLE, LOG_VARIABLE, application_name, generation_log
from include.contract.places import Places
from include.control.batch_limits import read_limit
from include.control.database import ControlDatabase
from include.control.drivers import record_process
from include.control.generations import Generation, LaunchUnusable, read_approvals
from include.control.progress import DriverExit, FinishedBatch, record_exit
from include.control.state_health import StateHealth
from include.processes.process_record import own_record
from include.start_plan.approvals import Approvals
from include.tidemarks.recorded import PastRange
from include.topics.topic import BrokerSilent, Topic, TopicMissing
from jobs.batch import Delivered, Delivery
from jobs.driver_arguments import parse, write_own_launch
from jobs.exits import end_of_jvm, ended_by
from jobs.failpoints import check_failpoint
from jobs.folder_care import FolderCare
from jobs.levelling import level, still_uneven
from jobs.live_line import LiveLine
from jobs.query_lifecycle import QueryLifecycle, silence_spark
from jobs.reporter import Reporter
from jobs.row_shape import sink_shape
from jobs.session import open_session
from jobs.source import stream_records
from jobs.state_health import StateSaid, ask_state
from jobs.stateful_delivery import StatefulDelivery
from jobs.stateful_frame import output_mode, stateful_frame
from jobs.take_over import NeedsLevelling, TakenStream, TakeOver
from jobs.topic_watch import refuse_if_shorter
from jobs.transform import rows_of

JVM_END_SECONDS = 10  # from its last answer to its exit code
THIS_BATCH = {"once": True}  # that is planned already


def main(arguments: list[str], open_spark: Callable[[str], SparkSession] = open_session) -> int:
    driver = Driver(parse(arguments))
    try:
        ended = driver.drive(lambda: _open(driver, open_spark))
    except Exception as failure:  # noqa: BLE001 - told by its class; a stack trace only where there is none
        ended = ended_by(failure)
        if ended.exit_class is ExitClass.UNKNOWN:
            traceback.print_exception(failure)
    out = sys.stderr if ended.exit_class.code else sys.stdout
    print(f"{ended.exit_class.title}: {ended.happened} {ended.state} {ended.next_step}", file=out, flush=True)
    if ended.evidence:
        print(f"evidence: {json.dumps(ended.evidence, default=str)}", file=out, flush=True)
    return ended.exit_class.code


def _open(driver: "Driver", open_spark: Callable[[str], SparkSession]) -> SparkSession:
    spark = open_spark(driver.title)
    driver.lifecycle.hear_signals()  # after the session, which sets handlers of its own
    return spark


class Driver:
    """One run of one stream, from the launch to the end."""

    def __init__(self, wanted: argparse.Namespace) -> None:
        self.lifecycle = QueryLifecycle()
        self.query: StreamingQuery | None = None
        self._care: FolderCare | None = None  # once there is a folder
        self._wanted = wanted

    def drive(self, open_spark: Callable[[], SparkSession]) -> DriverExit:
        """Until the stream is stopped. Raises what ended it, after it was recorded with its launch."""
        try:
            self._prepare()
        except Exception as refusal:
            self._record_refusal(refusal)
            raise
        reporter = Reporter(self._control, self._launch, self.stream, self._places.sinks, self.lifecycle.ask_to_stop)
        try:
            self._run(open_spark(), reporter)
        except Exception as error:
            failure = _jvm_end() or error
            self._finish(ended_by(failure), reporter)
            if failure is error:
                raise
            raise failure from error
        ended = ended_by(None)
        self._finish(ended, reporter)
        return ended

    def _finish(self, ended: DriverExit, reporter: Reporter) -> None:
        """The folder first: whoever starts the stream again goes on from it, and ends what is left of this driver."""
        if self._care is not None:
            self._care.ended(ended)
        reporter.finish(ended, self._records_per_batch)

    def _run(self, spark: SparkSession, reporter: Reporter) -> None:
        topic = Topic(read_connection(self.stream.spec.source.connection).address, self.stream.spec.source.topic)
        shape = sink_shape(spark, self.stream)
        take_over = TakeOver(spark, self.stream, self._environment, self._places, self._control, topic, shape)
        try:
            taken = self._take(spark, topic, take_over)
        finally:
            reporter.know(take_over.generation)
            _name_log(self.stream.name, take_over.generation)
        self._care = FolderCare(self.stream, taken, self._places.backups)
        reporter.start()
        self._run_query(spark, topic, taken, reporter)

    def _prepare(self) -> None:
        """Everything that can be refused without Spark, and the launch."""
        check_failpoint()
        self.stream, self._environment = find_stream(self._wanted.stream), load_environment()
        self._places = Places.of(self.stream, self._environment)
        self._control = ControlDatabase(read_connection(self._environment.control.connection))
        self._control.migrate()
        self._launch = self._wanted.launch or write_own_launch(self._control, self.stream, self._wanted)
        with self._control.transaction() as cursor:
            detached = LAUNCH_VARIABLE in os.environ
            record_process(cursor, self._launch, socket.gethostname(), own_record(), detached=detached)
        self._approvals = Approvals.model_validate(read_approvals(self._control, self._launch))
        self._records_per_batch = self._read_limit()

    def _read_limit(self) -> int:
        """A stateful stream's batches are as the file says: one that is too big is an incident (P3.9)."""
        declared = self.stream.spec.source.max_records_per_batch
        if self.stream.spec.is_stateful:
            return declared
        with self._control.transaction() as cursor:
            return read_limit(cursor, self.stream.name, declared)

    def _record_refusal(self, refusal: Exception) -> None:
        """Or supervision would find the driver gone without a word. A launch that is not ours to end is left alone."""
        if self._wanted.launch is None or isinstance(refusal, LaunchUnusable):
            return
        with suppress(TidemarkError):  # the refusal itself is what is told
            control = ControlDatabase(read_connection(load_environment().control.connection))
            with control.transaction() as cursor:
                record_exit(cursor, self._wanted.launch, self._wanted.stream, None, ended_by(refusal))

    @property
    def title(self) -> str:
        return application_name(self.stream.name, self._launch)

    def _take(self, spark: SparkSession, topic: Topic, take_over: TakeOver) -> TakenStream:
        try:
            return take_over.run(self._launch, self._approvals)
        except NeedsLevelling as uneven:
            self._level(spark, topic, uneven.spec_hash)
        try:
            return take_over.run(self._launch, self._approvals)
        except NeedsLevelling as uneven:
            raise still_uneven(self.stream.name, uneven.spec_hash) from uneven

    def _level(self, spark: SparkSession, topic: Topic, old_spec: str) -> None:
        done = level(spark, self.stream, old_spec, self._environment, self._control, topic, self._launch, self._approvals)
        print(f"{self.stream.name}: sinks were uneven; {done.read:,} records were delivered under spec {old_spec}", flush=True)

    def _run_query(self, spark: SparkSession, topic: Topic, taken: TakenStream, reporter: Reporter) -> None:
        silence_spark(spark)
        stream = self.stream
        for sentence in taken.plan.told:
            print(f"{stream.name}: {sentence}", flush=True)
        name = f"{stream.name}_{taken.generation.number}"
        delivery = StatefulDelivery(spark, stream, topic, taken, name) if taken.state else Delivery(stream, topic, taken)
        live = LiveLine(stream.name, taken.generation.number, taken.plan.starts)
        live.begin(self._records_per_batch, stream.spec.source.max_records_per_batch)

        def on_batch(rows: DataFrame, batch: int) -> None:
            began = time.monotonic()
            done = delivery.deliver(rows, batch)
            seconds = time.monotonic() - began
            latest = _latest(topic, done)
            refuse_if_shorter(latest, done.ends)
            lag = sum(max(0, end - done.ends.get(number, 0)) for number, end in latest.items())
            said = ask_state(spark, name, stream.spec) if taken.state else None
            state = _health(said, taken)
            reporter.batch_finished(FinishedBatch(batch, done.read, seconds, lag, datetime.now(UTC), state))
            live.batch(done, seconds, latest, lag, said.dropped.told if said and done.read else "")

        rows = rows_of(stream_records(spark, topic.address, topic.name, self._records_per_batch), stream)
        try:
            for past, trigger in self._runs(taken):
                out = stateful_frame(rows, stream, past) if taken.state else rows
                self.query = (
                    out.writeStream.queryName(name)
                    .outputMode(output_mode(stream.spec))
                    .option("checkpointLocation", str(taken.checkpoint))
                    .trigger(**trigger)
                    .foreachBatch(self.lifecycle.around(on_batch))
                    .start()
                )
                self.lifecycle.wait(self.query, ends_by_itself=self._wanted.once or trigger == THIS_BATCH)
                if self.lifecycle.is_stopping:
                    break
        except (PySparkException, TopicMissing):
            delivery.check_topic()  # Spark takes a topic that was made anew for one that has lost records,
            check_ready(taken.checkpoint)  # and a checkpoint that is gone for a file that does not exist
            raise

    def _runs(self, taken: TakenStream) -> Iterator[tuple[Sequence[PastRange], dict[str, Any]]]:
        """A warm-up, then recorded batches one by one: each is a query of its own that ends with it. The last recorded one
        goes on into new ones."""
        state = taken.state
        while state is not None and (batch := state.plan_next()):
            if batch.past:
                yield batch.past, THIS_BATCH
            elif state.pending:
                yield (), THIS_BATCH
        yield (), self._trigger()

    def _trigger(self) -> dict[str, Any]:
        if self._wanted.once:
            return {"availableNow": True}
        return {"processingTime": f"{self.stream.spec.trigger.total_seconds():.0f} seconds"}


def _name_log(stream: str, generation: Generation | None) -> None:
    """The launcher could not know the generation; whoever has the file open goes on writing to it."""
    if generation is not None and (log := os.environ.get(LOG_VARIABLE)):
        with suppress(FileNotFoundError):  # named before, by the generation that levelled
            Path(log).rename(Path(log).parents[1] / generation_log(stream, generation.number))


def _latest(topic: Topic, done: Delivered) -> dict[int, int]:
    """A broker that does not say how much there is to do is no reason to end after a batch that is whole."""
    try:
        return topic.state().latest
    except BrokerSilent:
        return done.ends


def _health(said: StateSaid | None, taken: TakenStream) -> StateHealth | None:
    """By the clock of the sink that is furthest: of a batch that is run again, one has it already."""
    clocks = [sink.tidemark.clock for sink in taken.sinks.values() if sink.tidemark.clock]
    return said.health(max(clocks, key=lambda clock: clock.watermark_ms, default=None)) if said else None


def _jvm_end() -> StreamFailure | None:
    """None while it lives."""
    gateway: Any = SparkContext._gateway
    if gateway is None or _answers(gateway):
        return None
    process = getattr(gateway, "proc", None)  # none under spark-submit, where the JVM is our parent
    with suppress(subprocess.TimeoutExpired):
        return end_of_jvm(process.wait(JVM_END_SECONDS) if process else None)
    return None


def _answers(gateway: Any) -> bool:
    try:
        return bool(gateway.jvm.System.currentTimeMillis())
    except (Py4JError, OSError):
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
