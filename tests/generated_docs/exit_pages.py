"""docs/exits: the head of each class's page, the index, and what supervision does after an end of each class."""

from pathlib import Path

from include.contract.exit_class import ExitClass
from include.supervision.restarts import (
    FIRST_PAUSE,
    HEALTHY,
    HOPELESS,
    LONGEST_PAUSE,
    LONGEST_WAIT,
    LOOP_FAILURES,
    LOOP_WINDOW,
    TOO_BIG,
    TOO_BIG_FAILURES,
)
from tests.generated_docs.marks import generated_from, table
from tests.generated_docs.numbers import short
from tests.running import PROJECT

EXITS = PROJECT / "docs" / "exits"
SAID_BY = {
    ExitClass.KILLED: "supervision, for a driver that could not say it; the driver, if its JVM alone was killed",
    ExitClass.STUCK: "supervision, for a driver that could not say it",
}
INDEX = """{generated}
# How a driver may end

Every end of a driver has a class. The supervise log, the incident and `make journal STREAM=x` name it, and the driver's exit
code tells it. A driver's own message, with its offsets, versions and files, is more exact than these pages: read it first.

{classes}
"""


def exit_page(one: ExitClass) -> Path:
    return EXITS / f"{one.title.replace(' ', '_')}.md"


def exit_head(one: ExitClass) -> str:
    said_by = SAID_BY.get(one, "the driver")
    rows = [("code", str(one.code)), ("said by", said_by), ("next step", one.next_step), ("supervision", restart_rule(one))]
    return f"# {one.title}\n\n{table(('', ''), rows)}"


def exit_index() -> str:
    rows = [(str(one.code), f"[{one.title}]({exit_page(one).name})", one.next_step) for one in ExitClass]
    classes = table(("code", "class", "next step"), rows)
    return INDEX.format(generated=generated_from("include/contract/exit_class.py"), classes=classes)


def restart_rule(one: ExitClass) -> str:
    """What `plan_restart` and `decide` do about it, in words."""
    pauses = [min(LONGEST_PAUSE, FIRST_PAUSE * 2**number) for number in range(LOOP_FAILURES - 2)]
    counted = (
        f"starts it again at once, then after {', '.join(map(short, pauses))}; "
        f"end {LOOP_FAILURES} of this class within {short(LOOP_WINDOW)} stops the stream with an incident"
    )
    if one in HOPELESS:
        return "stops the stream at once with an incident: no restart mends this"
    if one is ExitClass.STOPPED:
        return "does nothing; if the stream should run, starts it again at once"
    if one is ExitClass.INFRASTRUCTURE:
        return (
            f"starts it again for as long as it takes: at once, then after {short(FIRST_PAUSE)}, doubling up to "
            f"{short(LONGEST_WAIT)}; waits while Kafka or the lake gives no answer; never gives up"
        )
    if one is ExitClass.FENCED:
        return f"stops the stream at once with an incident if the newer driver is none of ours; otherwise {counted}"
    if one is ExitClass.STUCK:
        return (
            "kills the driver and starts another at once; if that one is stuck too within "
            f"{short(HEALTHY)} plus `health.stuck_after`, opens an incident and leaves it as it is"
        )
    with_state = f"; of a stream with a state, end {TOO_BIG_FAILURES} in a row without a batch between them"
    return f"{counted}{with_state}" if one in TOO_BIG else counted
