"""Supervision's looks at a sink see what a full reading sees, and read the history only when something strange happened."""

from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from include.tidemarks import sink_watch
from include.tidemarks.sink_state import SinkState, read_sink
from include.tidemarks.sink_watch import SinkWatch
from tests.streams import TrialStream


class Counted:
    def __init__(self) -> None:
        self.readings = 0

    def __call__(self, *place: str) -> SinkState:
        self.readings += 1
        return read_sink(*place)


def test_a_watch_sees_what_a_full_reading_sees(
    stack: Stack, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = TrialStream(stack, tmp_path)
    table = str(stream.table)
    watch, full = SinkWatch(table, stream.name, "lake"), Counted()
    monkeypatch.setattr(sink_watch, "read_sink", full)

    def check(what: str, readings: int) -> None:
        before = full.readings
        assert watch.look() == read_sink(table, stream.name, "lake"), what
        assert full.readings - before == readings, what

    check("no table yet", 1)
    for _ in range(2):
        stream.send(30)
        stream.run(spark)
        check("fence, adoption and batch", 1 if full.readings == 1 else 0)
        check("nothing new", 0)
    delta = DeltaTable.forPath(spark, table)
    delta.optimize().executeCompaction()
    check("compaction", 0)
    delta.delete("_offset = 3")
    check("somebody's DELETE", 1)
    delta.restoreToVersion(3)
    check("somebody's RESTORE", 1)
    stream.run(spark)
    check("the next generation", 0)
