"""Whatever is done to the tables or the ledger is found, and named with its partition and offsets."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.control.database import ControlDatabase
from include.control.windows import Verdict
from include.local_stack.stack import Stack
from include.reconciliation.judge import BOOKS_DIFFER
from tests.integration.reconciliation import trial as hands
from tests.integration.reconciliation.trial import Harm, Trial

FAULTS: dict[str, tuple[Harm, str]] = {
    "row deleted": (hands.delete_row, r"1 lost in partition 1: offset 7 \(event_id [0-9a-f]{32}\).*somebody's DELETE"),
    "row duplicated": (hands.duplicate_row, r"1 delivered twice in partition 1: offset 7.*somebody's WRITE \(.*\) added 1 rows"),
    "value changed": (hands.change_value, r"1 changed since they were delivered in partition 1: offset 7.*somebody's UPDATE"),
    "data file removed": (hands.remove_file, r"data file .*parquet is gone: it held \d+ rows, offsets \d+ to \d+ of partition 1"),
    "foreign append of a copied batch": (hands.copy_batch, r"30 delivered twice in partition 1: offset 0 to 29.*added 30 rows"),
    "quarantine row removed": (hands.remove_quarantined, r"1 bad but not in quarantine in partition 1: offset 32"),
    "copy of the ledger edited": (hands.edit_copied_ledger, r"version 3: .*copy is not what the table says \(partitions \[1\]\)"),
    "ledger edited": (hands.edit_log, r"version 3 books 91 delivered, but Delta's log counts 90 rows"),
    "tidemark moved": (hands.move_tidemark, r"30 lost in partition 1: offset 33 to 62.*version 4 leaves a gap, offsets 33 to 63"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_named(
    fault: str, stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path
) -> None:
    harm, named = FAULTS[fault]
    trial = Trial(stack, spark, tmp_path, own_control)
    trial.deliver(90, filtered=6, bad=3)
    harm(trial)
    window = trial.judged()
    assert window.verdict is Verdict.FAILED
    assert re.search(named, window.told or ""), window.told
    (incident,) = trial.incidents()
    assert incident.title == BOOKS_DIFFER
    assert (window.told or "") in incident.happened
    assert trial.complete_through() is None
