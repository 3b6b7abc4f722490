"""Kafka against a table that holds the newest row of each key: what was merged passes, window after window; what somebody
changed is found, and the key is named (P7).
"""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from include.control.database import ControlDatabase
from include.control.windows import Verdict, Window
from include.local_stack.stack import Stack
from include.reconciliation.reconcile import Asked
from jobs.measure_window import measure_run
from tests.integration.jobs.test_changing_topics import delete_records
from tests.integration.reconciliation.trial import Trial, edit_log
from tests.latest import LatestStream

SELECT = {"day": "date(ts)", "amount_cents": "cast(amount * 100 as bigint)", "fate": "user_id"}  # our own names are taken by none
EARLY, LATER, BEFORE_ALL = 30, 31, -1  # hours: most orders lie between


class LatestTrial(Trial):
    stream: LatestStream

    def merge(self, orders: int = 0) -> None:
        self.stream.send_orders(orders)
        self.stream.run(self.spark)

    def table(self) -> DeltaTable:
        return DeltaTable.forPath(self.spark, str(self.stream.table))

    def version(self) -> int:
        return int(self.table().history(1).head()["version"])  # type: ignore[index]

    def append(self, rows: DataFrame) -> None:
        """As a stranger would; the frame may read the table itself."""
        rows.localCheckpoint().write.format("delta").mode("append").save(str(self.stream.table))

    def rows_of(self, user: str, version: int | None = None) -> DataFrame:
        options = {} if version is None else {"versionAsOf": str(version)}
        return self.spark.read.format("delta").options(**options).load(str(self.stream.table)).where(F.col("user_id") == user)

    def put_back(self, user: str, version: int) -> None:
        old = self.rows_of(user, version).localCheckpoint()
        self.table().delete(F.col("user_id") == user)
        self.append(old)


@pytest.fixture
def begin(stack: Stack, spark: SparkSession, own_control: ControlDatabase, tmp_path: Path) -> Callable[..., LatestTrial]:
    def begin(**sink: object) -> LatestTrial:
        stream = LatestStream(stack, tmp_path, own_control=own_control, sink=sink)
        return LatestTrial(stack, spark, tmp_path, own_control, stream)

    return begin


def test_windows_beside_a_live_stream_pass(begin: Callable[..., LatestTrial]) -> None:
    """Deletes, ties, records without a key, a commit between choosing and measuring."""
    trial = begin()
    first = judged_first(trial)
    with trial.stream.running(trial.spark), trial.stream.environment():
        trial.stream.send_orders(300)
        steps = trial.steps()
        trial.stream.wait_until_merged()
        steps.choose()
        steps.audit()
        trial.stream.send_orders(300)
        trial.stream.wait_until_merged()
        measure_run(trial.spark, steps.stream, steps.run)
        (second,) = steps.judge()
    assert (second.verdict, second.offsets, second.starts) == (Verdict.PASSED, 300, first.ends), second.told
    assert trial.judged().verdict is Verdict.PASSED
    assert trial.incidents() == []


@pytest.mark.thorough
def test_windows_of_several_starts_pass(begin: Callable[..., LatestTrial]) -> None:
    """Late records, compaction, a window that is judged again by hand."""
    trial = begin()
    first = judged_first(trial)
    trial.merge(200)
    trial.merge(100)
    trial.table().optimize().executeCompaction()
    trial.stream.send_order_of("u3", BEFORE_ALL)
    trial.merge()
    second = trial.judged()
    assert (second.verdict, second.offsets, second.starts) == (Verdict.PASSED, 301, first.ends), second.told
    by_hand = trial.judged(Asked("lake", first.ranges))
    assert (by_hand.verdict, by_hand.offsets) == (Verdict.PASSED, 410), by_hand.told
    assert trial.incidents() == []


def judged_first(trial: LatestTrial) -> Window:
    trial.stream.write_file(select=SELECT, reconcile__unique=["event_id"])
    trial.stream.send(0, bad=3, filtered=4)
    trial.stream.send_orders(400, without_key=3)
    trial.merge()
    first = trial.judged()
    assert (first.verdict, first.offsets) == (Verdict.PASSED, 410), first.told
    return first


NAMED = {
    "a row deleted": r"1 lost in partition 0: offset {lost} \(user_id lost\)",
    "a delete taken out": r"1 lost in partition 1: offset {forgotten} \(user_id forgotten\)",
    "a row put back": r"1 older in the table than in Kafka in partition 1: offset {older} \(user_id older\)",
    "a deleted key brought back": r"1 deleted in Kafka but alive in the table in partition 1: offset {dead} \(user_id dead\)",
    "a value changed": r"1 changed since they were delivered in partition 0: offset {worth} \(user_id worth\)",
    "a row of nobody": r"1 in the table but not in Kafka in partition 0: offset {lost} \(user_id nobody\)",
    "a second row": r"1 delivered twice in partition 0: offset {twin} \(user_id twin\)",
    "a reject removed": r"1 without a key but not rejected in partition 2: offset {reject};",
    "the reject's count": r"stands in the rejects once \(partition 2: booked_rejected 1, reject_rows 0\)",
    "the ledger edited": r"every good record in Kafka is booked so \(partition 1: kafka_good_or_copy \d+, booked_good \d+\)",
    "Delta's own count": r"version \d+ books \d+ delivered, but Delta's log counts \d+ rows in it",
    "who it was": r"somebody's DELETE \(version \d+\) removed 1 files with their rows",
}  # fmt: skip


def test_every_fault_is_found_and_its_key_named(begin: Callable[..., LatestTrial]) -> None:
    trial = begin()
    stream = trial.stream
    places = {user: stream.send_order_of(user, EARLY) for user in ("lost", "older", "dead", "forgotten", "worth", "twin")}
    trial.merge(60)
    first = trial.version()
    places |= {"older": stream.send_order_of("older", LATER, partition=1)}
    places |= {user: stream.send_order_of(user, LATER, gone=True, partition=1) for user in ("dead", "forgotten")}
    stream.send_orders(60, without_key=3)
    stream.run(trial.spark)
    assert stream.wrong_keys() == []
    places["reject"] = next(place for place, one in stream.records.items() if one["user_id"] is None and place[0] == 2)
    edit_log(trial)
    nobody = trial.rows_of("lost").withColumn("user_id", F.lit("nobody")).localCheckpoint()
    for user in ("lost", "forgotten"):
        trial.table().delete(F.col("user_id") == user)
    for user in ("older", "dead"):
        trial.put_back(user, first)
    trial.table().update(F.col("user_id") == "worth", {"amount_cents": F.lit(1)})
    trial.append(nobody)
    trial.append(trial.rows_of("twin"))
    DeltaTable.forPath(trial.spark, str(stream.quarantine)).delete("_sink = 'lake' AND _partition = 2")
    window = trial.judged()
    assert window.verdict is Verdict.FAILED
    offsets = {user: str(offset) for user, (_, offset) in places.items()}
    unnamed = [fault for fault, told in NAMED.items() if not re.search(_filled(told, offsets), window.told or "")]
    assert unnamed == [], window.told
    assert len(named(window)) == 8, window.told


def _filled(told: str, offsets: dict[str, str]) -> str:
    for user, offset in offsets.items():
        told = told.replace("{" + user + "}", offset)
    return told


@pytest.mark.thorough
def test_a_delete_that_may_have_been_purged_is_not_missed(begin: Callable[..., LatestTrial]) -> None:
    """Nor an older row of its key that came when it was gone; but a row that was there before it is not right."""
    trial = begin(purge_deleted_after="1 second")
    stream = trial.stream
    for user in ("purged", "deleted later", "back", "resurrected", "lost"):
        stream.send_order_of(user, EARLY)
    stream.send_order_of("purged", LATER, gone=True)
    trial.merge()
    old = trial.version()
    first = trial.judged()
    for user in ("deleted later", "back", "resurrected"):
        stream.send_order_of(user, LATER, gone=True)
    trial.merge()
    for user in ("purged", "deleted later", "back", "lost"):
        trial.table().delete(F.col("user_id") == user)
    trial.put_back("resurrected", old)
    accepted = [f"--accept=lake:{version}" for version in range(old + 1, trial.version() + 1)]
    stream.send_order_of("back", BEFORE_ALL)
    stream.run(trial.spark, *accepted)
    second, by_hand = trial.judged(), trial.judged(Asked("lake", first.ranges))
    assert named(second) == [("deleted in Kafka but alive in the table", "user_id resurrected")], second.told
    assert named(by_hand) == [("lost", "user_id lost")], by_hand.told


def named(window: Window) -> list[tuple[str, str]]:
    assert window.measured is not None
    return [(one.kind, one.example) for one in window.measured.differences]


@pytest.mark.thorough
def test_rows_of_two_files_are_judged_together_unless_they_were_merged_otherwise(begin: Callable[..., LatestTrial]) -> None:
    trial = begin()
    trial.merge(100)
    trial.stream.write_file(select={"day": "date(ts)", "amount_cents": "cast(amount * 200 as bigint)"}, where="amount > 100")
    trial.merge(100)
    both = trial.judged()
    assert both.verdict is Verdict.PASSED, both.told
    trial.merge(50)
    trial.stream.sink = {"order": "_kafka_timestamp"}
    trial.stream.write_file()
    trial.merge(50)
    mixed = trial.judged()
    assert mixed.verdict is Verdict.NOT_JUDGED, mixed.told
    assert "merged by another key or order" in (mixed.told or "")
    trial.merge(50)
    assert trial.judged().verdict is Verdict.PASSED
    judge_without_other_files(trial)


def judge_without_other_files(trial: LatestTrial) -> None:
    """Only those are read that may hold the window's keys."""
    for count in (10, 1):
        for _ in range(count):
            trial.stream.send_order_of("zoe", LATER)
        trial.merge()
        if count > 1:
            assert trial.judged().verdict is Verdict.PASSED
    files = {
        row["file"] for row in trial.table().toDF().select("user_id", F.input_file_name().alias("file")).distinct().collect()
    }
    of_zoe = {row["file"] for row in trial.rows_of("zoe").select(F.input_file_name().alias("file")).collect()}
    assert files - of_zoe
    for file in files - of_zoe:
        Path(unquote(urlsplit(file).path)).unlink()
    window = trial.judged()
    assert (window.verdict, window.offsets) == (Verdict.PASSED, 1), window.told


@pytest.mark.thorough
def test_what_kafka_no_longer_has_is_not_judged(begin: Callable[..., LatestTrial]) -> None:
    """In a compacted topic a row whose record is gone tells nothing, but the records that are left must be there."""
    trial = begin()
    trial.stream.remake_topic_as({"cleanup.policy": "compact,delete"})
    trial.stream.key = b"one key"
    trial.merge(100)
    assert trial.judged().verdict is Verdict.PASSED
    trial.stream.send_order_of("lost", EARLY)
    trial.merge(100)
    trial.table().delete(F.col("user_id") == "lost")
    assert named(trial.judged()) == [("lost", "user_id lost")]
    trial.stream.run(trial.spark, f"--accept=lake:{trial.version()}")
    trial.merge(100)
    delete_records(trial.stream, 0, 90)
    window = trial.judged()
    assert window.verdict is Verdict.NOT_JUDGED, window.told
    assert "partition 0: Kafka begins at 90" in (window.told or "")
