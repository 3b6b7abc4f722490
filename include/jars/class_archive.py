"""Spark's classes laid out once, for every driver's JVM to map instead of parsing them anew (class data sharing).

An archive fits one Java, one class path and one place of pyspark, so it lies in the virtual environment. A JVM that finds none,
or one that does not fit, goes without, and only starts later: a first Delta commit came after 11 s, with an archive after 7 s.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from include.jars.lock import JAR_LOCK

WARM_UP_SECONDS = 180


def class_archive() -> Path:
    """For the locked jars."""
    return Path(sys.prefix) / f"spark-classes-{hashlib.sha256(JAR_LOCK.read_bytes()).hexdigest()[:16]}.jsa"


def make_class_archive(environment: dict[str, str], project: Path) -> bool:
    """Runs a short Spark job whose JVM writes down the classes that it loaded. Whole or not at all: a JVM that maps a part of an
    archive dies of it. False if that failed, which harms nothing."""
    with tempfile.TemporaryDirectory(dir=sys.prefix, prefix="laying-out-") as place:
        made = Path(place) / "classes.jsa"
        command = [sys.executable, "-m", "jobs.warm_up", str(made)]
        try:
            subprocess.run(
                command,
                cwd=project,
                env={**environment, "TIDEMARK_HOME": place},
                capture_output=True,
                timeout=WARM_UP_SECONDS,
                check=True,
            )
            made.replace(class_archive())
        except (subprocess.SubprocessError, OSError):
            return False
    return True
