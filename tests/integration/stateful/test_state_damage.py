"""State that breaks under a running driver: its end has a class, its folder is not tried again, each id is there once."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from include.checkpoints.about import DAMAGED
from include.contract.exit_class import ExitClass
from include.local_stack.stack import Stack
from jobs.exits import classify
from jobs.failpoints import Failpoint
from tests.payments import TIMED, Event, counted_once, send
from tests.streams import TrialStream, at, once

FIRST = [Event(f"a{n}", f"u{n % 3}", n / 4, partition=n % 3) for n in range(60)]
SECOND = [
    *(Event(f"b{n}", f"u{n % 3}", 15 + n / 4, partition=n % 3) for n in range(60)),
    *(Event(f"a{n}", f"u{n % 3}", n / 4, partition=(n + 1) % 3) for n in range(40, 60)),
]


def newest_folder(trial: TrialStream) -> Path:
    return max(folder for folder in trial.checkpoints.iterdir() if not folder.name.startswith("."))


def changelogs(trial: TrialStream) -> list[Path]:
    return sorted(newest_folder(trial).glob("state/*/*/1.changelog"))


def lose_files(trial: TrialStream) -> None:
    for file in changelogs(trial):
        file.unlink()


def tear_files(trial: TrialStream) -> None:
    for file in changelogs(trial):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garble_files(trial: TrialStream) -> None:
    for file in changelogs(trial):
        file.write_bytes(b"\xff" * file.stat().st_size)


def lose_the_state(trial: TrialStream) -> None:
    shutil.rmtree(newest_folder(trial) / "state")


@pytest.mark.parametrize(
    "damage",
    [tear_files, *(pytest.param(one, marks=pytest.mark.thorough) for one in (lose_files, garble_files, lose_the_state))],
    ids=lambda damage: damage.__name__,
)
def test_a_state_that_breaks_is_named_marked_and_made_again(
    stack: Stack, tmp_path: Path, spark: SparkSession, damage: Callable[[TrialStream], None]
) -> None:
    trial = TrialStream(stack, tmp_path)
    trial.write_file(**TIMED)
    send(trial, FIRST)
    trial.run(spark)
    send(trial, SECOND)
    with at(Failpoint.AFTER_CHECKPOINT, once(lambda: damage(trial))), pytest.raises(Exception, match="STATE") as broken:
        trial.run(spark)
    assert classify(broken.value) is ExitClass.CHECKPOINT_DAMAGE
    marked = sorted(folder.name for folder in trial.checkpoints.iterdir() if (folder / DAMAGED).exists())
    assert marked == ["c000001", "c000002"]  # the files of one are those of the other
    trial.run(spark)
    assert Counter(row["event_id"] for row in trial.rows()) == Counter(dict.fromkeys(counted_once([*FIRST, *SECOND]), 1))
