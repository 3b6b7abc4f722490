"""Which folders a start looks at, and how far it looks back."""

from pathlib import Path

from include.checkpoints.about import pass_over
from include.start_plan.state_seen import _generations
from tests.unit.checkpoints.stateful_folder import stateful_folder


def test_folders_without_a_batch_hide_no_older_one(tmp_path: Path) -> None:
    for generation, batches in ((1, 3), (2, 3), (3, 3), (4, 3), (5, 0), (6, 0), (7, 0)):
        stateful_folder(tmp_path / f"c00000{generation}", batches)
    (tmp_path / ".c000008.unfinished").mkdir()
    pass_over(tmp_path / "c000004", "a person said so")
    assert [(folder.name, why) for folder, why in _generations(tmp_path)] == [
        *[(f"c00000{generation}", None) for generation in (7, 6, 5)],
        ("c000004", "it is marked: a person said so"),
        *[(f"c00000{generation}", None) for generation in (3, 2)],
    ]
