"""The jar cache: outside the work tree, shared by all clones, checked against the lock at every use.

A jar whose SHA-256 is not the locked one never reaches a class path: it is moved aside and fetched again. Jars enter
the cache by rename, so a killed fetch leaves nothing half-made in it.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from include.contract.errors import TidemarkError
from include.jars.ivy import fetch
from include.jars.lock import Jar, read_jar_lock


class WrongJar(TidemarkError):
    """A fetched jar is not the one that was locked."""


class JarMissing(TidemarkError):
    """A jar that a process needs is not in the cache, or is not the locked one."""


def cache_folder() -> Path:
    """`TIDEMARK_JARS` (an image that ships the jars), else the user's cache folder."""
    if shipped := os.environ.get("TIDEMARK_JARS"):
        return Path(shipped)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemark" / "jars"


def class_path(jar_set: str) -> str:
    """The verified jars of one set, joined for Java."""
    jars = [jar for jar in read_jar_lock() if jar.jar_set == jar_set]
    if unusable := missing_jars(jars):
        raise JarMissing(
            f"{len(unusable)} of the {len(jars)} {jar_set} jars in {cache_folder()} are missing or damaged, "
            f"first {unusable[0].coordinates}.",
            state="Nothing was started.",
            next_step="Run `make up`, which fetches them again.",
        )
    return os.pathsep.join(str(cache_folder() / jar.file_name) for jar in jars)


def missing_jars(jars: list[Jar]) -> list[Jar]:
    """Those that are absent, or not the locked bytes."""
    return [jar for jar in jars if sha256_of(cache_folder() / jar.file_name) != jar.sha256]


def fill_cache(java: Path) -> list[Jar]:
    """Fetches what is missing or damaged; returns what was fetched."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _only_one_at_a_time():
        wanted = missing_jars(read_jar_lock())
        for abandoned in cache_folder().parent.glob("fetching-*"):  # by a fetch that was killed; we hold the lock
            shutil.rmtree(abandoned)
        if wanted:
            with tempfile.TemporaryDirectory(dir=cache_folder().parent, prefix="fetching-") as place:
                fetch(wanted, Path(place), java)
                for jar in wanted:
                    _admit(jar, Path(place) / jar.file_name)
    return wanted


def _admit(jar: Jar, fetched: Path) -> None:
    found = sha256_of(fetched)
    if found != jar.sha256:
        raise WrongJar(
            f"{jar.coordinates} was fetched with SHA-256 {found}, but {jar.sha256} is locked.",
            state="It was thrown away; the cache holds only verified jars.",
            next_step="Check the mirror; if the jar was changed on purpose, run `make jar-lock` and review the difference.",
        )
    target = cache_folder() / jar.file_name
    if target.exists():
        target.replace(target.with_suffix(".damaged"))
    fetched.replace(target)


def sha256_of(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def _only_one_at_a_time() -> Iterator[None]:
    """Two clones that fill the cache at once: the second waits, then finds nothing missing."""
    folder = os.open(cache_folder(), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
