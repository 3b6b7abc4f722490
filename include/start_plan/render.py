"""A start plan as a table that reads well in a terminal and as markdown."""

from include.contract.catalog import Stream
from include.start_plan.plan import StartPlan
from include.start_plan.world import World


def render_plan(stream: Stream, world: World, plan: StartPlan) -> str:
    return "\n".join(
        [f"**{plan.verdict.value}**: {one_sentence(stream.name, world, plan)}", "", *_table(world, plan), *_told(plan)]
    )


def one_sentence(stream: str, world: World, plan: StartPlan) -> str:
    lost = sum(loss.end - loss.start for loss in plan.losses)
    told = (
        f"{stream} would begin with {records_to_read(world, plan):,} offsets to read, {to_drop(plan):,} of them dropped by sinks"
    )
    return f"{told} that have them already, {lost:,} lost.{_for_state(plan)}"


def _for_state(plan: StartPlan) -> str:
    again = sum(_reads_again(plan, number) for number in plan.starts)
    return f" Before that {again:,} offsets are read again for its state." if again else ""


def _reads_again(plan: StartPlan, number: int) -> int:
    """Offsets below the lowest tidemark of a partition that a stateful stream reads once more."""
    start = plan.starts.get(number, 0)
    return max(0, start - plan.state.starts.get(number, start)) if plan.state else 0


def records_to_read(world: World, plan: StartPlan) -> int:
    return sum(max(0, end - plan.starts.get(number, 0)) for number, end in world.topic.stable.items())


def to_drop(plan: StartPlan) -> int:
    """Read again for the hindmost sink, and dropped by those that are ahead of it."""
    return sum(plan.highest[number] - start for number, start in plan.starts.items())


def _table(world: World, plan: StartPlan) -> list[str]:
    sinks = sorted(world.sinks)
    head = [
        "partition",
        *(f"{name} holds up to" for name in sinks),
        "Kafka from",
        "Kafka to",
        *(["state from", "for the state"] if plan.state else []),
        "starts at",
        "to read",
        "to drop",
        "lost",
    ]
    rows = [_row(number, sinks, world, plan) for number in sorted(world.topic.stable)]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [_line([cell.rjust(width) for cell, width in zip(row, widths, strict=True)]) for row in [head, *rows]]
    return [lines[0], _line(["-" * (width - 1) + ":" for width in widths]), *lines[1:]]


def _row(number: int, sinks: list[str], world: World, plan: StartPlan) -> list[str]:
    marks = [world.sinks[name].tidemark for name in sinks]
    held = [f"{mark.next_offset(number):,}" if mark else "-" for mark in marks]
    start, end = plan.starts.get(number, 0), world.topic.stable[number]
    lost = max((loss.end - loss.start for loss in plan.losses if loss.partition == number), default=0)
    drop = plan.highest.get(number, start) - start
    kafka = [f"{world.topic.earliest[number]:,}", f"{end:,}"]
    again = _reads_again(plan, number)
    state = [f"{start - again:,}", f"{again:,}"] if plan.state else []
    return [str(number), *held, *kafka, *state, *(f"{value:,}" for value in (start, max(0, end - start), drop, lost))]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _told(plan: StartPlan) -> list[str]:
    objections = (f"- {one.verdict.value}: {one.sentence} {one.next_step}" for one in plan.objections)
    told = [*(f"- {sentence}" for sentence in plan.told), *objections]
    return ["", *told] if told else []
