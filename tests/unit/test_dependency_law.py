"""The direction of imports is the law of the layout; a tree that breaks it does not pass the gate."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import PROJECT


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    command = "from importlinter.cli import lint_imports_command as c; c()"
    return subprocess.run([sys.executable, "-c", command, "--no-cache"], cwd=tree, capture_output=True, text=True, check=False)


@pytest.fixture
def copy_of_the_tree(tmp_path: Path) -> Path:
    for folder in ("dags", "include", "jobs"):
        shutil.copytree(PROJECT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_tree_keeps_the_law(copy_of_the_tree: Path) -> None:
    kept = lint_imports(copy_of_the_tree)
    assert kept.returncode == 0, kept.stdout + kept.stderr


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("include/contract/errors.py", "include.control"),
        ("include/tidemarks/__init__.py", "include.supervision"),
        ("include/control/__init__.py", "airflow"),
        ("include/supervision/__init__.py", "pyspark"),
        ("dags/check_deployment.py", "pyspark"),
        ("jobs/session.py", "airflow"),
        ("jobs/session.py", "include.supervision"),
        ("jobs/session.py", "include.housekeeping"),
        ("jobs/session.py", "include.local_stack.home"),
        ("include/housekeeping/__init__.py", "include.supervision"),
        ("include/housekeeping/__init__.py", "airflow"),
        ("include/airflow_parts/submit_job.py", "include.local_stack.home"),
    ],
)
def test_an_import_against_the_law_is_refused(copy_of_the_tree: Path, module: str, forbidden: str) -> None:
    with (copy_of_the_tree / module).open("a") as source:
        source.write(f"\nimport {forbidden}\n")
    refused = lint_imports(copy_of_the_tree)
    assert refused.returncode == 1, refused.stdout
    assert forbidden in refused.stdout
