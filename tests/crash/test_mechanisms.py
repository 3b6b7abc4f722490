"""Each mechanism of the protocol is needed: with it the books are true, in a copy of the product without it they are not.

docs/mechanisms.md is written from this file: make test ARGS="tests/crash/test_mechanisms.py --thorough --rewrite".
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from tests.crash import kafka_scenarios, scenarios
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.running import PROJECT
from tests.warm_jvm import lent

DOCUMENT = PROJECT / "docs" / "mechanisms.md"
TREE = ("bench", "config", "dags", "include", "jobs", "tests")


@dataclass(frozen=True)
class Mechanism:
    """What is taken out: (file, text, what stands there instead)."""

    title: str
    rule: str
    scenario: Scenario
    patches: tuple[tuple[str, str, str], ...]
    ends_as: str = ""  # where it depends on who is faster


QUARANTINE_STEP = """            for one in prepared:
                if refused := one.counting.refused:  # P3.3
                    self._quarantine.insert(rows, batch.lowest, one.moved, refused, one.counting.read_above_lowest)
"""
COMMITS = "            ledgers = [self._until_committed(one, batch) for one in prepared]\n"
ADOPTION = "            pinned=pinned,\n        )\n        self._commit(transaction, note)"
MECHANISMS = [
    Mechanism(
        "rows below the tidemark are dropped",
        "P3.4",
        scenarios.crash_between_two_sinks_then_larger_batches,
        (("jobs/counting.py", "max(batch.starts[number], tidemark.get(number, 0))", "batch.starts[number]"),),
    ),
    Mechanism(
        "a commit is made only on the tidemark its rows were filtered by",
        "P3.4",
        scenarios.an_older_driver_goes_on_after_a_newer_one,
        (("jobs/fenced_table.py", "if number is not None and (", "if False and ("),),
    ),
    Mechanism(
        "the fence",
        "P1.2",
        scenarios.a_zombie_commits_while_its_successor_takes_over,
        (
            ("jobs/fenced_table.py", "        self._make()\n        while True:", "        self._make()\n        while False:"),
            ("jobs/fenced_table.py", "if state.owner != self.generation.owner:", "if False:"),
        ),
    ),
    Mechanism(
        "adoption",
        "P2.5",
        scenarios.crash_between_two_sinks_of_the_first_batch_from_latest,
        (("jobs/fenced_table.py", ADOPTION, ADOPTION.replace("self._commit(transaction, note)", "self._newest = note")),),
    ),
    Mechanism(
        "uneven sinks are levelled under the old spec",
        "P2",
        scenarios.crash_between_two_sinks_then_another_file,
        (("include/start_plan/levels.py", "return made_by if made_by != spec_hash else None", "return None"),),
    ),
    Mechanism(
        "what others got without a sink is not levelled",
        "P2",
        scenarios.a_sink_is_added_from_earliest_then_crash_and_another_file,
        (
            (
                "include/start_plan/levels.py",
                "max(offsets.get(number, 0), apart.get(name, {}).get(number, 0)) < end",
                "offsets.get(number, 0) < end",
            ),
        ),
    ),
    Mechanism(
        "a quarantined record is known by what judged it",
        "P3.3",
        scenarios.a_sink_is_added_from_earliest_then_crash_and_another_file,
        (("jobs/quarantine.py", "self._judged_by = judging_hash(stream)", "self._judged_by = table.spec_hash"),),
    ),
    Mechanism(
        "quarantine before the sinks",
        "P3.3",
        scenarios.crash_right_after_the_sinks_commit,
        (
            ("jobs/batch.py", QUARANTINE_STEP, ""),
            ("jobs/batch.py", COMMITS, COMMITS + QUARANTINE_STEP),
        ),
    ),
    Mechanism(
        "quarantined only if absent",
        "P3.3",
        scenarios.crash_after_the_quarantine,
        (("jobs/quarantine.py", '.join(F.broadcast(known), is_same, "left_anti")', ""),),
    ),
    Mechanism(
        "a tidemark holds only if the one it builds on is there",
        "P4",
        scenarios.a_restore_under_a_running_batch,
        (("include/tidemarks/sink_state.py", "if newest.builds_on != holds:", "if False:"),),
    ),
    Mechanism(
        "the topic's id is checked before a commit",
        "P1.6",
        scenarios.the_topic_is_made_anew_before_the_commit,
        (("jobs/topic_watch.py", "if there != self._topic_id:", "if False:"),),
    ),
    Mechanism(
        "offsets are compared within one epoch",
        "P1.6",
        scenarios.a_topic_that_was_made_anew_is_approved,
        (("include/start_plan/epochs.py", "if state.note is None or ", "if True or "),),
    ),
    Mechanism(
        "every attempt at a slot reads the marks",
        "P5",
        kafka_scenarios.a_task_is_tried_again_after_its_commit,
        (("jobs/kafka/slot_attempt.py", "return self._done_before(marks, ends)", "return None"),),
    ),
    Mechanism(
        "every attempt at a slot reads who has fenced",
        "P5",
        kafka_scenarios.a_driver_sends_after_its_successor_has_fenced,
        (("jobs/kafka/slot_attempt.py", "if LOG_PARTITION in fresh and (", "if fresh.pop(LOG_PARTITION, None) and False and ("),),
    ),
    Mechanism(
        "transactions of older drivers are ended and waited for",
        "P5",
        kafka_scenarios.a_slot_is_open_when_a_successor_with_fewer_slots_commits,
        (
            ("jobs/kafka/kafka_sink.py", "            self._end_slots()  # 3\n", ""),
            ("include/topics/committed.py", "if end.stable < end.high}", "if False}"),
        ),
        ends_as="delivered twice, or hidden behind a transaction that stays open",
    ),
    Mechanism(
        "what was committed but not told is told at the fence",
        "P5",
        kafka_scenarios.crash_between_the_slots_and_the_log,
        (("jobs/kafka/kafka_sink.py", "if note := untold(", "if False and untold("),),
    ),
]
RESULTS: dict[str, str] = {}


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_books_are_true(name: str, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    assert SCENARIOS[name](stack, spark, tmp_path) == []


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.title)
def test_without_it_the_books_are_false(mechanism: Mechanism, stack: Stack, spark: SparkSession, tmp_path: Path) -> None:
    copy = tmp_path / "without"
    for folder in TREE:
        shutil.copytree(PROJECT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file, text, instead in mechanism.patches:
        content = (copy / file).read_text()
        assert content.count(text) == 1, f"{file} has {content.count(text)} times {text!r}"
        (copy / file).write_text(content.replace(text, instead))
    command = [sys.executable, "-m", "tests.crash.scenarios", mechanism.scenario.__name__, str(stack.home.folder), str(tmp_path)]
    with lent(spark) as jvm:
        environment = {**os.environ, **jvm}
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=300)
    told = re.search(r"^PROBLEMS (.*)$", done.stdout, re.MULTILINE)
    assert told, done.stdout + done.stderr
    found = json.loads(told[1])
    assert found != [], done.stdout + done.stderr
    RESULTS[mechanism.title] = mechanism.ends_as or re.sub(r", first .*", "", found[0])


@pytest.fixture(scope="module")
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))


@pytest.mark.thorough
def test_the_document_tells_what_happened(rewrite: bool) -> None:
    """Last: it needs the results of the tests above."""
    if len(RESULTS) < len(MECHANISMS):
        pytest.skip("only some of the mechanisms were tried")
    if rewrite:
        DOCUMENT.write_text(_document())
    assert DOCUMENT.read_text() == _document()


def _document() -> str:
    lines = [
        "# Every mechanism is needed",
        "",
        "Generated by `tests/crash/test_mechanisms.py`. Each line is a history that ends with true books. The same history on a",
        "copy of the product from which the mechanism was taken out ends as the last column says.",
        "",
        "| mechanism | rule | history | without it |",
        "|---|---|---|---|",
    ]
    for one in MECHANISMS:
        history = one.scenario.__name__.replace("_", " ")
        lines.append(f"| {one.title} | {one.rule} | {history} | {RESULTS[one.title]} |")
    return "\n".join(lines) + "\n"
