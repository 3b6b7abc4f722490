"""Makes what every other command needs: Java 17, .venv from the lock, the jars of the jar lock.

Run by each make target with the machine's own Python, so standard library only. Finished work is stamped with the
lock's hash, written last: a half-made .venv has no stamp and is made again; a finished one costs milliseconds.
"""

import sys

if sys.version_info < (3, 11):  # before the imports below, which an older Python cannot even read
    sys.exit(
        f"PythonTooOld: {sys.executable} is Python {sys.version.split()[0]}, but 3.11 or newer is needed. Nothing was "
        "installed. Install python3.11 (Debian, Ubuntu, Fedora) and run the same command with PYTHON=python3.11."
    )

import argparse
import fcntl
import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from include.contract.errors import TidemarkError
from include.local_stack.disk import check_free_space
from include.local_stack.exit_code import exit_code_of
from include.local_stack.java import find_java
from include.local_stack.progress import say, step
from include.processes.process_record import read_record

PROJECT = Path(__file__).resolve().parents[2]
VENV = PROJECT / ".venv"
UV = "uv==0.13.7"  # installs the lock in a third of pip's time; pinned like everything else
RUNTIME_LOCK = PROJECT / "requirements.txt"
DEV_LOCK = PROJECT / "requirements-dev.txt"
BROWSER_LOCK = PROJECT / "requirements-browser.txt"
VENV_BYTES = 3 * 10**9  # 1.4 GB installed, as much again in the cache of uv


class StackInTheWay(TidemarkError):
    """The .venv cannot be made again under a running stack."""


class InstallFailed(TidemarkError):
    """A Python package could not be fetched or installed."""


def main() -> int:
    wanted = _arguments()
    return exit_code_of(lambda: _prepare(wanted), if_interrupted="what is half-made is made again by the next command.")


def _prepare(wanted: argparse.Namespace) -> int:
    if not wanted.only_venv:
        find_java()
    with _only_one_at_a_time():
        make_venv([RUNTIME_LOCK, *([DEV_LOCK] if wanted.dev else []), *([BROWSER_LOCK] if wanted.browser else [])])
    if wanted.only_venv:
        return 0
    # In the new interpreter: the jar cache needs Ivy, which lies inside the pyspark that was just installed.
    return subprocess.run(
        [str(VENV / "bin" / "python"), "-m", "include.local_stack.fetch_jars"], cwd=PROJECT, check=False
    ).returncode


def make_venv(locks: list[Path]) -> None:
    if not _is_made():
        _refuse_under_a_running_stack()
        check_free_space(PROJECT, VENV_BYTES, "the Python packages")
        with step("making .venv"):
            _run([_python_outside_any_venv(), "-m", "venv", "--clear", str(VENV)])
            _run([str(VENV / "bin" / "python"), "-m", "pip", "install", "-q", UV])
    for lock in locks:
        if not _stamp(lock).exists():
            with step(f"installing {lock.name}"):
                _install(lock)
            _replace_stamp(lock)


def _is_made() -> bool:
    """The interpreter is a link: it dangles when the Python that it was made from is gone."""
    return _stamp(RUNTIME_LOCK).exists() and (VENV / "bin" / "python").exists()


def _refuse_under_a_running_stack() -> None:
    """Its programs live in this .venv."""
    for file in (PROJECT / "var").glob("*/run/*.json"):
        record = read_record(file)
        if record and record.is_alive():
            raise StackInTheWay(
                f"The locked packages have changed, but {file.stem} of {file.parents[1]} runs from the .venv to be replaced.",
                state="Nothing was changed.",
                next_step="Run `make down`, then the same command again.",
            )


def _python_outside_any_venv() -> str:
    """Never the .venv that is about to be cleared, which is what `python3` means in an activated shell."""
    return getattr(sys, "_base_executable", sys.executable)


def _install(lock: Path) -> None:
    python = str(VENV / "bin" / "python")
    _run(
        [
            python,
            "-m",
            "uv",
            "pip",
            "install",
            "-q",
            "--compile-bytecode",
            "--python",
            python,
            "--require-hashes",
            "-r",
            str(lock),
        ]
    )


def _stamp(lock: Path) -> Path:
    """Present only after everything in this very lock was installed for this very Python and place."""
    what = lock.read_bytes() + f"{sys.version_info[:2]} {VENV}".encode()
    return VENV / f"installed-{lock.stem}-{hashlib.sha256(what).hexdigest()[:16]}"


def _replace_stamp(lock: Path) -> None:
    for older in VENV.glob(f"installed-{lock.stem}-*"):
        older.unlink()
    _stamp(lock).touch()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = (done.stderr or done.stdout).strip()
    last_lines = "\n    ".join(said.splitlines()[-8:])
    mirror = "behind a mirror set UV_DEFAULT_INDEX and PIP_INDEX_URL to it first."
    no_venv = "this Python comes without venv: install python3-venv (Debian, Ubuntu) first."
    raise InstallFailed(
        f"`{Path(command[0]).name} {' '.join(command[1:5])} ...` ended with code {done.returncode}:\n    {last_lines}\n",
        state="The unfinished .venv is made again by the next command.",
        next_step=f"Run the same command again; {no_venv if 'ensurepip' in said + done.stdout else mirror}",
    )


@contextmanager
def _only_one_at_a_time() -> Iterator[None]:
    """Two make commands in one clone: the second waits for the first. The lock lies on the folder, so no file stays."""
    folder = os.open(PROJECT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("  waiting for another make command that prepares this clone")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", action="store_true", help="also what tests and lint need")
    parser.add_argument("--browser", action="store_true", help="also what drives a browser")
    parser.add_argument("--only-venv", action="store_true", help="neither Java nor jars")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
