"""Says what a long step does and how many seconds it took. Standard library only."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

STEP_WIDTH = 62


def say(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Prints `what` at once and its seconds at the end; on a terminal the seconds count up meanwhile."""
    began = time.monotonic()
    finished = threading.Event()
    label = f"  {what} ".ljust(STEP_WIDTH, ".")
    print(label, end="", flush=True)
    ticker = threading.Thread(target=_count_up, args=(label, began, finished), daemon=True)
    if sys.stdout.isatty():
        ticker.start()
    outcome = "failed after"
    try:
        yield
        outcome = ""
    finally:
        finished.set()
        if ticker.is_alive():
            ticker.join()
            print(f"\r{label}", end="")
        print(f" {outcome}{time.monotonic() - began:6.1f} s", flush=True)


def _count_up(label: str, began: float, finished: threading.Event) -> None:
    while not finished.wait(1):
        print(f"\r{label} {time.monotonic() - began:6.0f} s", end="", flush=True)
