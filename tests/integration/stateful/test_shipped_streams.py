"""The shipped streams of payments, as the demo plays them: one loses its state between two portions, and both are right."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.demo.eyes import newest_batch
from include.local_stack.demo.parts_played import STATEFUL, WINDOWS, played_sinks
from include.local_stack.demo.payments import PaymentSender
from include.local_stack.demo.records import Sent
from include.local_stack.demo.story import MADE_AGAIN
from include.local_stack.stack import Stack
from jobs.driver_arguments import parse
from jobs.run_stream import Driver
from tests.running import PROJECT
from tests.streams import TrialStream


def test_what_was_sent_is_counted_once_though_one_lost_its_state(
    stack: Stack, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    trial, payments = TrialStream(stack, tmp_path), PaymentSender(stack.kafka.connection.address)
    for file in ("schemas/payment.yaml", *(f"streams/{name}.yaml" for name in STATEFUL)):
        shutil.copy(PROJECT / "config" / file, trial.config / file)
    sinks = [sink for sink in played_sinks(stack, Sent(), payments.sent) if sink.stream in STATEFUL]

    def run() -> None:
        with trial.environment():
            for name in STATEFUL:
                Driver(parse([name, "--once"])).drive(lambda: spark)

    payments.send_first(2_000)
    run()
    assert all(newest_batch(sink.eye).watermark_ms > 0 for sink in sinks)
    trial.checkpoints.with_name(WINDOWS).rename(tmp_path / "taken_away")
    assert payments.send_rest(2_000) == 200
    capsys.readouterr()
    run()
    assert capsys.readouterr().out.count(MADE_AGAIN) == 1
    for sink in sinks:
        counted = sink.count()
        assert counted.named == ()
        assert counted.is_balanced
        assert (counted.delivered, counted.late) == (4_000, 20)
        assert counted.duplicates > 400
