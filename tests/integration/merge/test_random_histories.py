"""Whatever comes in whatever order, and wherever a driver dies: each key has its newest record, and the ledger adds up.

A history has keys of its own, several generations and at least three restarts, which ten of them share: a restart is what takes
time. `make histories` tries two hundred.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from include.local_stack.stack import Stack
from include.tidemarks.delta_log import DeltaLog
from jobs.failpoints import Failpoint
from tests.latest import LatestStream, newest_of, wrong_keys
from tests.merge_history import History, open_history

HISTORIES = int(os.environ.get("TIDEMARK_HISTORIES", "20"))
TOGETHER = 10
TIMES = [f"2026-11-16T0{hour}:00:00+00:00" for hour in range(4)]
PLACES = [None, Failpoint.BEFORE_WRITE, Failpoint.IN_WRITE, Failpoint.BEFORE_COMMIT, Failpoint.AFTER_COMMIT]


@dataclass(frozen=True)
class Life:
    """Of one generation: what comes in before it starts, in batches of which size it delivers, and where it dies."""

    records: list[tuple[int, int, str, str, bool]]  # history, partition, key, time, whether it deletes
    batch: int
    batches: int
    dies: Failpoint | None


RECORDS = st.tuples(
    st.integers(0, TOGETHER - 1), st.integers(0, 1), st.sampled_from("abcde"), st.sampled_from(TIMES), st.booleans()
)
LIVES = st.builds(
    Life, st.lists(RECORDS, min_size=10, max_size=120), st.integers(1, 40), st.integers(0, 1), st.sampled_from(PLACES)
)


@pytest.fixture(scope="module")
def history(stack: Stack, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("histories")
    stream = LatestStream(stack, folder)
    with stream.environment():
        yield open_history(spark, stream.name, folder)


@settings(
    max_examples=HISTORIES // TOGETHER,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.generate],
)
@given(lives=st.lists(LIVES, min_size=3, max_size=3))
def test_each_key_has_its_newest_record(history: History, lives: list[Life]) -> None:
    _live(history, lives)
    (table,) = history.places.sinks.values()
    assert wrong_keys(newest_of(history.records()), Path(str(table))) == []
    lines = [line for commit in DeltaLog(str(table)).after(-1) if commit.note for line in commit.note.ledger]
    read = sum(line.read for line in lines)
    assert read == len(history.records()) == sum(line.delivered + line.superseded for line in lines)


def _live(history: History, lives: list[Life]) -> None:
    prefix = f"h{history.held}"
    for life in lives:
        for number, partition, key, time, deletes in life.records:
            history.append(partition, _record(f"{prefix}.{number}{key}", time, deletes, len(history.topic[partition])))
        history.start()
        for _ in range(life.batches):
            history.deliver(life.batch)
        history.deliver(life.batch, life.dies)
    history.start()
    history.deliver(1_000)


def _record(key: str, time: str, deletes: bool, offset: int) -> dict[str, Any]:
    return {"event_id": f"{key}-{offset}", "user_id": key, "amount": 1, "ts": time, "gone": deletes}
