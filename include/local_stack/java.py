"""Finds the one Java that Spark, Kafka and Ivy run on here. Standard library only."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from include.contract.errors import TidemarkError

JAVA_MAJOR = 17
INSTALLED_JAVAS = Path("/usr/lib/jvm")  # where Linux packages put them
WHERE_TO_GET_IT = (
    "Install openjdk-17-jre-headless (Debian, Ubuntu) or java-17-openjdk-headless (Fedora, RHEL), or set JAVA_HOME to a "
    "Java 17, then run the same command again."
)

# For JVMs of tests and of the demo, which live for a minute: the compiler for those that live for hours only takes the other
# core's time. With it off, 48 MB are left for compiled code, which Spark fills: then it is thrown away and compiled again.
# Hadoop starts a `chmod` for each file it makes, and Java a helper that starts the `chmod`: a JVM that did nothing but start
# 400 of them took 2.0 s of a core, and 1.6 s without the helper.
FOR_SHORT_LIVES = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
)


class JavaMissing(TidemarkError):
    """No Java at all."""


class WrongJava(TidemarkError):
    """A Java that Spark and Kafka were not tested on."""


def find_java() -> Path:
    """The `java` of JAVA_HOME, else of PATH; refused unless it is Java 17. Never a version manager's shim: the real one."""
    candidate = _candidate()
    major, home = _ask(candidate)
    if major != JAVA_MAJOR:
        raise WrongJava(
            f"{candidate} is Java {major or 'of an unknown version'}, but Java {JAVA_MAJOR} is needed.",
            state="Nothing was started.",
            next_step=_next_step(),
        )
    return Path(home) / "bin" / "java"


def _candidate() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise JavaMissing(
                f"JAVA_HOME is {home}, but there is no bin/java in it.",
                state="Nothing was started.",
                next_step="Unset JAVA_HOME or point it to a Java 17, then run the same command again.",
            )
        return java
    if on_path := shutil.which("java"):
        return Path(on_path)
    raise JavaMissing("There is no java on PATH.", state="Nothing was started.", next_step=_next_step())


@lru_cache
def _ask(java: Path) -> tuple[int | None, str]:
    """Its version and its home, from its own mouth."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return None, ""
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said)
    home = re.search(r"java\.home = (.+)", said)
    return (int(version[1]) if version else None), (home[1].strip() if home else "")


def _next_step() -> str:
    for home in sorted(INSTALLED_JAVAS.glob(f"*{JAVA_MAJOR}*")):
        if (home / "bin" / "java").is_file() and _ask(home / "bin" / "java")[0] == JAVA_MAJOR:
            return f"There is one on this machine: run `export JAVA_HOME={home}`, then the same command again."
    return WHERE_TO_GET_IT
