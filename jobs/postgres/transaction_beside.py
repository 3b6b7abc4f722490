"""A transaction in a thread of its own, from its first statement to its COMMIT or its end without one.

What it puts in takes the database a while, and Spark writes other sinks meanwhile; then it waits for the order to commit. Until
then it asks the database something every second, which else would take it for that of a driver that sleeps, and end it.
"""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from psycopg2.extensions import cursor as Cursor

AWAKE_SECONDS = 1
Order = TypeVar("Order")
Done = TypeVar("Done")


class GivenUp(Exception):
    """The transaction is not to be committed."""


class TransactionBeside(Generic[Order, Done]):
    """`run` does all of it, and calls the function that it is given for the order to commit, when nothing else is left to do."""

    def __init__(self, run: Callable[[Callable[[Cursor], Order]], Done]) -> None:
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._ready: Future[None] = Future()
        self._is_told = False
        pool = ThreadPoolExecutor(1, "transaction")
        self._end = pool.submit(run, self._wait_for_order)
        pool.shutdown(wait=False)

    def _wait_for_order(self, cursor: Cursor) -> Order:
        self._ready.set_result(None)
        while True:
            try:
                order = self._orders.get(timeout=AWAKE_SECONDS)
            except Empty:
                cursor.execute("SELECT 1")
                continue
            if order is None:
                raise GivenUp
            return order

    def wait_until_ready(self) -> None:
        """Raises what went wrong."""
        either: list[Future[Any]] = [self._ready, self._end]
        wait(either, return_when=FIRST_COMPLETED)
        if self._end.done():
            self._ended()

    def commit(self, order: Order) -> Done:
        self._orders.put(order)
        return self._ended()

    def _ended(self) -> Done:
        self._is_told = True
        return self._end.result()

    def give_up(self) -> None:
        """Does nothing after its end. Waits for the statement that is under way, which has a deadline."""
        self._orders.put(None)
        failure = self._end.exception()
        if failure is not None and not self._is_told and not isinstance(failure, GivenUp):
            print(f"Beside what ends the batch, a transaction has failed: {failure}", flush=True)
