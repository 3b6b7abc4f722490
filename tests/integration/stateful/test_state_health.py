"""What a stateful driver tells of its state, and what a person sees of it; and that a stop leaves a backup."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.checkpoints.backup import list_backups, verify_backup
from include.control.database import ControlDatabase
from include.control.state_health import read_state_health
from include.control.stream_states import StreamState, write_state
from include.local_stack.stack import Stack
from include.supervision.outside_eye import look_from_outside
from tests.payments import NOON, TIMED, WINDOWS, Event, send, windows_sink
from tests.streams import TrialStream

EVENTS = [
    *(Event(f"a{n}", f"u{n % 3}", n / 2, partition=n % 3) for n in range(60)),
    Event("a59", "u2", 29.5, partition=0),
]
TOO_LATE = [Event("late", "u0", -60, partition=0, late=True)]
NEWEST_MS = int(NOON.timestamp() * 1000) + int(29.5 * 60_000)


def test_rows_bytes_and_watermark_of_each_operator_are_told_and_a_stop_leaves_a_backup(
    stack: Stack, tmp_path: Path, spark: SparkSession, own_control: ControlDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    trial = TrialStream(stack, tmp_path, own_control=own_control)
    trial.write_file(**TIMED, aggregate=WINDOWS, sinks=windows_sink(trial.name))
    send(trial, EVENTS)
    trial.run(spark)
    send(trial, TOO_LATE)
    trial.run(spark)
    told = capsys.readouterr().out
    assert ", 1 duplicates in" in told
    assert ", 1 late in" in told

    now = datetime.now(UTC)
    with own_control.transaction() as cursor:
        write_state(cursor, StreamState(trial.name, "running", "as it should", 0, 2, now, None, now))
        (seen,) = read_state_health(cursor)
    dedupe, windows = seen.health.operators
    assert (dedupe.operator, windows.operator) == ("dedupeWithinWatermark", "stateStoreSave")
    assert 0 < dedupe.rows < len(EVENTS)  # those within the watermark
    assert windows.rows > 0
    assert dedupe.memory_bytes > 0
    assert (seen.health.watermark_ms, seen.health.highest_ms) == (NEWEST_MS - 600_000, NEWEST_MS)
    lines = [line.split() for line in look_from_outside(own_control).text.splitlines() if "dedupeWithinWatermark" in line]
    assert lines[0][:3] == [trial.name, "dedupeWithinWatermark", str(dedupe.rows)]
    assert "2026-01-01 12:19:30  10 min" in look_from_outside(own_control).text

    backups = list_backups(stack.home.folder / "backups" / trial.name)
    assert [backup.generation for backup in backups] == [2, 1]
    verify_backup(backups[0])
