"""docs/states.md: what a stream's states mean, what comes after an end, and the numbers."""

from include.contract.exit_class import ExitClass
from include.supervision.states import State
from tests.generated_docs.exit_pages import exit_page, restart_rule
from tests.generated_docs.marks import generated_from, table
from tests.generated_docs.numbers import all_numbers
from tests.running import PROJECT

STATES = PROJECT / "docs" / "states.md"
PAGE = """{generated}
# States of a stream

Seen in the log of `supervise_streams` and in `make status`. Health is progress, not liveness: a driver that lives and delivers
nothing though there is work is *stuck*; one that has nothing to read is *idle*.

{states}

## After a driver has ended

Ends are counted from the last time that a person started, stopped or restarted the stream. Only ends of one class are counted
together, but the pause grows with every end in a row, whatever its class.

{ends}

## The numbers

How long a stream may be quiet while there is work is its own affair: `health.stuck_after` in the stream file.

{numbers}
"""


def states_page() -> str:
    ends = [(f"[{one.title}](exits/{exit_page(one).name})", restart_rule(one)) for one in ExitClass]
    return PAGE.format(
        generated=generated_from("include/supervision"),
        states=table(("state", "what it means", "what to do"), [(one.title, one.meaning, one.next_step) for one in State]),
        ends=table(("class", "supervision"), ends),
        numbers=table(("number", "value", "what it rules"), [(f"`{name}`", value, why) for name, value, why in all_numbers()]),
    )
