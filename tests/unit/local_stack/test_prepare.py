"""Making .venv: from the lock, once, and again when it is half-made. Real installs, of one small package."""

import shutil
import subprocess
from pathlib import Path

import pytest

from include.local_stack import prepare
from include.processes.process_record import write_own_record
from tests.running import PROJECT, run_module


@pytest.fixture
def small_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with a lock of one package, taken with its hashes from the real dev lock."""
    lines = (PROJECT / "requirements-dev.txt").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("iniconfig=="))
    end = next(number for number in range(start + 1, len(lines)) if not lines[number].startswith("    --hash"))
    lock = tmp_path / "requirements.txt"
    lock.write_text("\n".join(lines[start:end]).rstrip("\\ ") + "\n")
    monkeypatch.setattr(prepare, "PROJECT", tmp_path)
    monkeypatch.setattr(prepare, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(prepare, "RUNTIME_LOCK", lock)
    return lock


def has_package(venv: Path) -> bool:
    done = subprocess.run([venv / "bin" / "python", "-c", "import iniconfig"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.thorough
def test_a_venv_is_made_once_and_again_if_it_is_half_made_or_its_python_is_gone(
    small_lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    venv = small_lock.parent / ".venv"
    prepare.make_venv([small_lock])
    assert has_package(venv)
    assert "installing requirements.txt" in capsys.readouterr().out

    prepare.make_venv([small_lock])
    assert capsys.readouterr().out == ""

    for stamp in venv.glob("installed-*"):
        stamp.unlink()
    shutil.rmtree(venv / "bin")
    prepare.make_venv([small_lock])
    assert has_package(venv)

    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/nowhere/python3.11")
    prepare.make_venv([small_lock])
    assert has_package(venv)


def test_a_package_with_other_bytes_than_the_locked_ones_is_refused(small_lock: Path) -> None:
    small_lock.write_text("iniconfig==2.3.1 --hash=sha256:" + "0" * 64 + "\n")
    with pytest.raises(prepare.InstallFailed, match="mirror"):
        prepare.make_venv([small_lock])
    assert list((small_lock.parent / ".venv").glob("installed-*")) == []


def test_a_running_stack_is_not_robbed_of_its_venv(small_lock: Path) -> None:
    record = small_lock.parent / "var" / "stack" / "run" / "kafka.json"
    record.parent.mkdir(parents=True)
    write_own_record(record)
    with pytest.raises(prepare.StackInTheWay, match="kafka"):
        prepare.make_venv([small_lock])
    assert not (small_lock.parent / ".venv").exists()


def test_preparing_what_is_ready_says_nothing() -> None:
    done = run_module("include.local_stack.prepare", "--dev")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_older_python_is_told_so_before_anything_else() -> None:
    """Its first lines must be readable by any Python 3, or the person sees a SyntaxError instead."""
    source = (PROJECT / "include" / "local_stack" / "prepare.py").read_text()
    before_imports = source.split("import argparse")[0].replace("sys.version_info <", "(3, 9) <")
    compile(before_imports, "prepare.py", "exec", dont_inherit=True)
    with pytest.raises(SystemExit, match="PythonTooOld"):
        exec(compile(before_imports, "prepare.py", "exec"), {})  # noqa: S102 - our own lines
