"""How a generated part is told from what a person wrote."""

from pathlib import Path

COMMAND = 'make test ARGS="tests/unit/test_generated_docs.py --rewrite"'
BEGIN, END = f"<!-- generated: {COMMAND} -->", "<!-- end of the generated part -->"


def generated_from(source: str) -> str:
    """The first line of a page of which nothing is written by hand."""
    return f"<!-- generated from {source}: {COMMAND} -->"


def beside_hand_written(page: Path, part: str) -> str:
    """The generated part stands between two marks; what is written around it by hand stays."""
    there = page.read_text() if page.exists() else f"{BEGIN}\n{END}\n"
    before, begin, rest = there.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{page.name} has lost the mark {BEGIN}"
    assert end, f"{page.name} has lost the mark {END}"
    return f"{before}{BEGIN}\n{part}\n\n{END}{after}"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
