"""Ctrl-C, SIGTERM and a closed terminal: heard alike, and held back where stopping half-way would leave something behind."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTIONS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


def hear_all_alike() -> None:
    """Each raises KeyboardInterrupt; one that the caller chose to ignore (nohup, a background job) stays ignored."""
    for number in INTERRUPTIONS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def held_back() -> Iterator[None]:
    """They are delivered at the end of the block. Children inherit this: `become` undoes it."""
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
