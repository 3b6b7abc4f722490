"""What may be imported where, seen at run time and not only in the source."""

import subprocess
import sys

from tests.running import PROJECT

JOBS = sorted(f"jobs.{file.stem}" for file in (PROJECT / "jobs").glob("*.py") if file.stem != "__init__")
REFUSE_AIRFLOW = """
import sys, importlib
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "airflow":
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Refuse())
for job in sys.argv[1:]:
    importlib.import_module(job)
"""


def test_jobs_import_without_airflow() -> None:
    """All of them in one process, in which it is never there."""
    command = [sys.executable, "-c", REFUSE_AIRFLOW, *JOBS]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_preparing_needs_nothing_but_the_standard_library() -> None:
    """It runs before anything is installed: -I -S leaves only the standard library on the path."""
    modules = "include.local_stack.prepare, include.jars.cache, include.local_stack.compose_env"
    code = f"import sys; sys.path.insert(0, '.'); import {modules}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
