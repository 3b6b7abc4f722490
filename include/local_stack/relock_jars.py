"""`make jar-lock`: fetches every jar of config/jars.lock anew and writes the SHA-256 it finds into the lock."""

import sys
import tempfile
from pathlib import Path

from include.jars.cache import sha256_of
from include.jars.ivy import fetch
from include.jars.lock import JAR_LOCK, Jar, read_jar_lock
from include.local_stack.exit_code import exit_code_of
from include.local_stack.java import find_java


def main() -> int:
    jars = read_jar_lock()
    with tempfile.TemporaryDirectory() as place:
        fetch(jars, Path(place), find_java())
        found = {jar: sha256_of(Path(place) / jar.file_name) or "" for jar in jars}
    JAR_LOCK.write_text(render(found))
    changed = [jar.coordinates for jar, sha256 in found.items() if sha256 != jar.sha256]
    print(f"{len(jars)} jars locked, {len(changed)} with a new SHA-256: {', '.join(changed) or 'none'}")
    return 0


def render(found: dict[Jar, str]) -> str:
    comments = [line for line in JAR_LOCK.read_text().splitlines() if line.startswith("#")]
    width = max(len(jar.coordinates) for jar in found)
    lines = [f"{jar.jar_set}  {jar.coordinates:{width}}  {sha256}" for jar, sha256 in found.items()]
    return "\n".join([*comments, *lines]) + "\n"


if __name__ == "__main__":
    sys.exit(exit_code_of(main, if_interrupted="the lock was not changed."))
