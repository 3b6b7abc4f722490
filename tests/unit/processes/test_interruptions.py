"""Interruptions wait where stopping half-way would leave something behind, whichever thread the kernel tells."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from include.processes.interruptions import hear_all_alike, held_back


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    hear_all_alike()
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_an_interruption_is_heard_at_the_end_though_another_thread_was_told() -> None:
    done = []
    may_end = threading.Event()
    other = threading.Thread(target=may_end.wait)  # begun before the block, so it holds nothing back
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - that the block comes to its end is the point
            with held_back():
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.05)  # Python acts on a signal between two instructions
                done.append("all of it")
            done.append("never")
    finally:
        may_end.set()
        other.join()
    assert done == ["all of it"]


def test_after_the_block_interruptions_are_heard_at_once() -> None:
    with held_back():
        pass
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
