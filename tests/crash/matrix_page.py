"""A page of docs/ that tells of a crash matrix: which cases were tried, and how each came out."""

from itertools import product
from pathlib import Path

Case = tuple[str, str, str]  # what is written to, where it was killed, how it was started again
RESTARTS = ("as it was", "with larger batches", "killed there again")


def page(title: str, told: list[str], rows: list[str], boundaries: list[str], passed: set[Case]) -> str:
    lines = [f"# {title}", "", *told, "", f"| kind | boundary | {' | '.join(RESTARTS)} |", "|---|---|" + "---|" * len(RESTARTS)]
    for row, boundary in product(rows, boundaries):
        cells = ["exact" if (row, boundary, restart) in passed else "FAILED" for restart in RESTARTS]
        lines.append(f"| {row} | {boundary} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def pairwise(rows: list[str], boundaries: list[str]) -> list[Case]:
    """Each boundary with each row, every way of starting again about as often."""
    return [(row, place, RESTARTS[(r + b) % 3]) for r, row in enumerate(rows) for b, place in enumerate(boundaries)]


def every(rows: list[str], boundaries: list[str]) -> list[Case]:
    return list(product(rows, boundaries, RESTARTS))


def write_or_compare(document: Path, text: str, *, write: bool) -> None:
    if write:
        document.write_text(text)
    assert document.read_text() == text
