"""What a driver's JVM writes for itself alone: working copies of states, shuffles, temporary files. One that is killed leaves it
there, hundreds of megabytes with a large state; the next start of its stream on this machine removes it.
"""

import shutil
from collections.abc import Callable
from pathlib import Path


def make_scratch(of_stream: Path, launch: str, lives: Callable[[str], bool]) -> Path:
    """`of_stream`: holds a folder per launch. The caller sees to it that no other start of the stream is under way."""
    mine = of_stream / launch
    for left in of_stream.iterdir() if of_stream.is_dir() else ():
        if left != mine and not lives(left.name):
            shutil.rmtree(left, ignore_errors=True)  # what cannot be removed now is tried again: no reason not to start
    mine.mkdir(parents=True, exist_ok=True)
    return mine


def in_scratch(environment: dict[str, str], scratch: Path) -> dict[str, str]:
    """For spark-submit in client mode. Spark takes its own place by a variable that, unlike its others, may have a comma."""
    quoted = str(scratch).replace("\\", "\\\\").replace('"', '\\"')
    options = f'{environment.get("SPARK_SUBMIT_OPTS", "")} -Djava.io.tmpdir="{quoted}"'
    return {**environment, "SPARK_EXECUTOR_DIRS": str(scratch), "SPARK_SUBMIT_OPTS": options.strip()}
