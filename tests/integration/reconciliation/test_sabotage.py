"""The demo's sabotage: found by reconciliation and by the stranger's count, each in its own way, and named by both."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.control.database import ControlDatabase
from include.control.windows import Verdict
from include.local_stack.demo import sabotage
from include.local_stack.demo.count import Count, count
from include.local_stack.demo.records import Sent
from include.local_stack.demo.sabotage import SABOTAGE
from include.local_stack.stack import Stack
from tests.integration.reconciliation.trial import Trial

NAMED = {
    "delete_row": ("1 lost in partition 2: offset 5", "1 lost: partition 2, offset 5"),
    "duplicate_row": ("1 delivered twice in partition 2: offset 5", "1 delivered twice: partition 2, offset 5"),
    "skip_range": ("10 lost in partition 2: offset 5 to 14", "10 lost: partition 2, offset 5"),
}


@pytest.mark.parametrize("mode", SABOTAGE)
def test_sabotage_is_found_and_named(
    mode: str, stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sabotage, "OFFSET", 5)
    monkeypatch.setattr(sabotage, "SKIPPED", 10)
    trial = Trial(stack, spark, tmp_path, own_control)
    trial.deliver(90, filtered=6, bad=3)
    before = counted(trial)
    assert (before.is_balanced, before.produced, before.named) == (True, 99, ())
    SABOTAGE[mode](trial.stream.table)
    window, after = trial.judged(), counted(trial)
    by_us, by_a_stranger = NAMED[mode]
    assert window.verdict is Verdict.FAILED
    assert by_us in (window.told or "")
    assert not after.is_balanced
    assert by_a_stranger in after.named[0]


def counted(trial: Trial) -> Count:
    sent = Sent()
    for place, record in trial.stream.sent.items():
        if record["fate"] == "good":
            sent.good[place] = record["id"]
        else:
            (sent.broken if record["fate"] == "bad" else sent.filtered).add(place)
    return count(sent, trial.stream.table, trial.stream.quarantine)
