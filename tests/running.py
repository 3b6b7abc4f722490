"""Runs the product's own commands, as a person would type them, and looks at what they leave, without its own records."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

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


def wait_for(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    """Looks often if a look is cheap, and rests nine times as long as a look takes: whoever is waited for needs the processor."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(min(1, max(0.05, 9 * (time.monotonic() - began))))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processes_of(home: StackHome) -> list[psutil.Process]:
    """Whoever has this home on its command line, works in it, or has one of its files open as its output."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _is_of(process, str(home.folder))]


def _is_of(process: psutil.Process, folder: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        output = str(Path(f"/proc/{process.pid}/fd/1").readlink())
        return any(folder in place for place in (*process.cmdline(), process.cwd(), output))
    except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def listening_addresses(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for process in processes:
        try:
            connections = process.net_connections(kind="tcp")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        listening = [connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN]
        found |= {(address.ip.removeprefix("::ffff:"), address.port) for address in listening}
    return found


@contextmanager
def watching(look: Callable[[], set[str]], every_seconds: float) -> Iterator[set[str]]:
    """Everything that `look` ever saw while the block ran."""
    seen: set[str] = set()
    finished = threading.Event()

    def watch() -> None:
        while not finished.wait(every_seconds):
            seen.update(look())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        finished.set()
        watcher.join()


def command_lines() -> set[str]:
    """Of every process of the machine, read as any user could."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.add((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
