"""A start plan as a person reads it: one sentence and a table, partition by partition."""

from dataclasses import replace

from include.contract.catalog import load_streams
from include.start_plan.approvals import Approvals
from include.start_plan.plan import plan_start
from include.start_plan.render import render_plan
from include.start_plan.state_plan import StatePlan, Way
from tests.unit.start_plan.test_plan import HASH, new, sink, topic, world


def test_a_plan_tells_what_is_read_dropped_and_lost() -> None:
    seen = world(topic({0: 0, 1: 30}), sink("lake", {0: 40, 1: 20}), sink("more", {0: 10, 1: 20}))
    plan = plan_start(seen, "earliest", Approvals(), HASH)
    told = render_plan(load_streams()["orders_raw"], seen, plan)
    head, _, *table = told.splitlines()
    assert head == (
        "**NEEDS APPROVAL**: orders_raw would begin with 158 offsets to read, 30 of them dropped by sinks that have them already,"
        " 20 lost."
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table if line.startswith("|")]
    assert rows[0] == [
        "partition", "lake holds up to", "more holds up to", "Kafka from", "Kafka to", "starts at", "to read", "to drop", "lost",
    ]  # fmt: skip
    assert rows[2:] == [
        ["0", "40", "10", "0", "99", "10", "89", "30", "0"],
        ["1", "20", "20", "30", "99", "30", "69", "0", "10"],
    ]
    assert "- NEEDS APPROVAL: Sink lake holds partition 1 up to 20, but Kafka begins at 30: 10 offsets are lost." in told


def test_a_plan_tells_of_a_sink_that_is_added() -> None:
    seen = world(topic({0: 10, 1: 0}), sink("lake", {0: 40, 1: 20}), new("more"))
    plan = plan_start(seen, "earliest", Approvals(), HASH, {"more": "earliest"})
    told = render_plan(load_streams()["orders_raw"], seen, plan).splitlines()
    assert "188 offsets to read, 50 of them dropped by sinks that have them already, 0 lost" in told[0]
    assert told[-1].startswith(
        "- Sink more is new and begins at Kafka's earliest offsets: partition 0 at 10, partition 1 at 0. 50 offsets"
    )


def test_a_plan_tells_from_where_and_how_much_is_read_again_for_a_state() -> None:
    seen = world(topic({0: 0, 1: 0}), sink("lake", {0: 40, 1: 20}))
    stateless = plan_start(seen, "earliest", Approvals(), HASH)
    plan = replace(stateless, state=StatePlan(Way.WARM_UP, {0: 15, 1: 20}))
    told = render_plan(load_streams()["orders_raw"], seen, plan).splitlines()
    assert told[0].endswith("0 lost. Before that 25 offsets are read again for its state.")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in told if line.startswith("|")]
    assert rows[0][4:6] == ["state from", "for the state"]
    assert [row[4:6] for row in rows[2:]] == [["15", "25"], ["20", "0"]]
    assert "state" not in render_plan(load_streams()["orders_raw"], seen, stateless)
