"""Which copies have passed, told by the batches alone; and results that do not depend on the order of records."""

from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from include.contract.stream_spec import Aggregate, StreamSpec
from jobs.copies import with_choice
from jobs.stateful_frame import results_of
from tests.payments import NOON, WINDOWS

MINUTE = 60_000_000  # microseconds
PASSES, COPY, DOUBTFUL = (True, False), (False, False), (False, True)
# Copies of one record: batch and minute, as they came; then what is to be told of each.
HISTORIES: dict[str, tuple[list[tuple[int, int]], list[tuple[bool, bool]]]] = {
    "the first batch goes first": ([(1, 5), (2, 0)], [PASSES, COPY]),
    "in one batch the earliest event goes first": ([(1, 5), (1, 0)], [COPY, PASSES]),
    "one that comes again much later may pass as well": ([(1, 0), (3, 20)], [PASSES, DOUBTFUL]),
    "what comes much later changes nothing about those before it": ([(1, 0), (2, 5), (3, 20)], [PASSES, COPY, DOUBTFUL]),
    "of what came before all is known nothing is certain": ([(0, 0), (1, 5)], [PASSES, DOUBTFUL]),
    "of what was forgotten neither": ([(1, -30), (1, -25)], [PASSES, DOUBTFUL]),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_of_copies_of_a_record(history: str, spark: SparkSession) -> None:
    came, told = HISTORIES[history]
    rows = [("k", minute * MINUTE, batch, 0, offset) for offset, (batch, minute) in enumerate(came)]
    good = spark.createDataFrame(rows, "_copy_of string, _at bigint, _batch bigint, _partition int, _offset bigint")
    chosen = with_choice(good, timedelta(minutes=10), certain_from=1, forgotten_ms=-20 * 60_000)
    found = chosen.orderBy("_offset").select("_passes", "_doubtful").collect()
    assert [tuple(row) for row in found] == told


def test_an_average_of_whole_numbers_does_not_depend_on_the_order_of_records(spark: SparkSession) -> None:
    """Added up as doubles, 2^53 and 1 and 1 are 2^53, but 1 and 1 and 2^53 are more."""
    late_by = {"event_time": "ts", "within": "10 minutes"}
    aggregate = Aggregate.model_validate({**WINDOWS, **late_by, "sum": [], "avg": ["amount_cents"]})
    spec = StreamSpec.model_construct(dedupe=None, aggregate=aggregate)

    def average(cents: list[int]) -> float:
        rows = [("u", NOON, one) for one in cents]
        frame = spark.createDataFrame(rows, "user_id string, ts timestamp, amount_cents bigint").coalesce(1)
        (row,) = results_of(frame, spec, aggregate).collect()
        return row["amount_cents_avg"]

    assert average([2**53, 1, 1]) == average([1, 1, 2**53]) == (2**53 + 2) / 3
