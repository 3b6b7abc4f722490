"""Ctrl-C, SIGTERM and a closed terminal: heard alike, and held back where stopping half-way would leave something behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTIONS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def hear_all_alike() -> None:
    """Each raises KeyboardInterrupt; one that the caller chose to ignore (nohup, a background job) stays ignored."""
    for number in INTERRUPTIONS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def held_back() -> Iterator[None]:
    """They are delivered at the end of the block. Children inherit the mask: `become` undoes it. The mask is of this thread, and
    the kernel may tell another one, for which Python lets the main thread act: so the handlers wait as well."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    heard: list[int] = []
    handlers = _replaced(heard) if threading.current_thread() is threading.main_thread() else {}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        for first in heard[:1]:
            signal.raise_signal(first)


def _replaced(heard: list[int]) -> dict[signal.Signals, Any]:
    """The handlers that were there. One that Python did not set cannot be set again, and what is ignored stays so."""
    before = {number: signal.getsignal(number) for number in INTERRUPTIONS}
    ours = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}
    for number in ours:
        signal.signal(number, lambda heard_one, _: heard.append(heard_one))
    return ours


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
