"""Says what a long step does and how many seconds it took. Standard library only.

Never fails: whoever reads may have gone (a closed terminal, `make up | head`), and the work must still be done or undone.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

STEP_WIDTH = 62


def say(text: str = "", end: str = "\n") -> None:
    with suppress(OSError):
        print(text, end=end, flush=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Says `what` at once and its seconds at the end; on a terminal the seconds count up meanwhile."""
    began = time.monotonic()
    finished = threading.Event()
    label = f"  {what} ".ljust(STEP_WIDTH, ".")
    say(label, end="")
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
            say(f"\r{label}", end="")
        say(f" {outcome}{time.monotonic() - began:6.1f} s")


def _count_up(label: str, began: float, finished: threading.Event) -> None:
    while not finished.wait(1):
        say(f"\r{label} {time.monotonic() - began:6.0f} s", end="")
