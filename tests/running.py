"""Runs the product's own commands, as a person would type them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from include.local_stack.home import StackHome

PROJECT = Path(__file__).resolve().parents[1]


def run_module(module: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def stack_command(home: StackHome, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_module("include.local_stack", "--home", str(home.folder), *arguments, **environment)


def wait_for(what: str, condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.05)
