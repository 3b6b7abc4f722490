"""A stateful batch is consumed in full, or state is left uncommitted while Spark believes the batch done (P6.1)."""

import ast
from pathlib import Path

import pytest

from tests.running import PROJECT

PARTIAL = {"isEmpty", "limit", "take", "head", "first", "show", "tail", "offset", "toLocalIterator", "sample", "randomSplit"}
ON_OTHERS = {("fates.py", "toLocalIterator")}  # one small row per partition, of a batch read


MADE_OF = {
    "stateful_frame",
    "stateful_delivery",
    "query_lifecycle",
    "kept_rows",
    "fates",
    "spark_counts",
    "batch",
    "batch_content",
}


def stateful_modules() -> list[Path]:
    """All that touch what comes out of the stateful operators: who makes it, who delivers it, and what that one is made of."""
    texts = {path: path.read_text() for path in sorted((PROJECT / "jobs").rglob("*.py"))}
    return [path for path, text in texts.items() if path.stem in MADE_OF or "StatefulDelivery(" in text]


@pytest.mark.parametrize("module", stateful_modules(), ids=lambda path: path.name)
def test_nothing_reads_a_part_of_a_stateful_frame(module: Path) -> None:
    called = {
        node.func.attr
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert {name for name in called & PARTIAL if (module.name, name) not in ON_OTHERS} == set()


def test_every_module_that_is_to_be_guarded_is_there() -> None:
    assert {path.stem for path in stateful_modules()} == MADE_OF | {"run_stream"}


def test_what_comes_out_is_counted_in_full_before_anything_may_return_or_fail() -> None:
    source = ast.parse((PROJECT / "jobs" / "stateful_delivery.py").read_text())
    deliver = next(node for node in ast.walk(source) if isinstance(node, ast.FunctionDef) and node.name == "deliver")
    (block,) = [node for node in deliver.body if isinstance(node, ast.With)]
    assert ast.unparse(block.items[0]) == "kept(out) as there"
    assert ast.unparse(block.body[0]) == "results = there.count()"
    before = [node for statement in deliver.body[: deliver.body.index(block)] for node in ast.walk(statement)]
    assert not any(isinstance(node, ast.Return) for node in before)
    assert not any(isinstance(node, ast.Name) and node.id == "out" for node in before), "nobody else has had it"
