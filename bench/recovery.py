"""How fast a killed driver is noticed, and how fast its successor commits: kills the drivers of a running stack's stream.

`make bench-recovery` on a stack that is up, with `orders_raw` running. Times are taken from the control database, whose clock
both the kill and the commit are told by. Each kill waits until the successor has delivered what was sent just before it.
"""

import os
import signal
import statistics
import time
from datetime import datetime

from include.contract.identity import LAUNCH_VARIABLE
from include.control.database import ControlDatabase
from include.control.desired import set_desired
from include.control.drivers import newest_generation, read_batches, read_open_launches
from include.local_stack.drivers import running_drivers
from include.local_stack.home import VAR, StackHome
from include.local_stack.sample_orders import send_orders
from include.local_stack.stack import Stack
from include.processes.by_environment import find_processes

STREAM = "orders_raw"
KILLS = 5
RECORDS = 1_000
PATIENCE_SECONDS = 180


def main() -> None:
    stack = Stack(StackHome(VAR / "stack"))
    control = ControlDatabase(stack.postgres.connection("tidemark"))
    noticed, committed = zip(*(kill_once(stack, control) for _ in range(KILLS)), strict=True)
    for what, seconds in (("noticed", noticed), ("committed", committed)):
        told = ", ".join(f"{value:.1f}" for value in seconds)
        print(f"{what} after: median {statistics.median(seconds):.1f} s, slowest {max(seconds):.1f} s ({told})", flush=True)


def kill_once(stack: Stack, control: ControlDatabase) -> tuple[float, float]:
    """Seconds from the kill to the new launch, and to the first batch of the new generation."""
    with control.transaction() as cursor:
        set_desired(cursor, STREAM, running=True, set_by="bench", reason="earlier kills are forgiven")
        before = newest_generation(cursor, STREAM)
    send_orders(stack.kafka.connection.address, RECORDS)
    killed_at = _now(control)
    for launch in running_drivers(stack.home):
        for pid in find_processes(**{LAUNCH_VARIABLE: launch}):
            os.kill(pid, signal.SIGKILL)
    return _wait_for_successor(control, before, killed_at)


def _wait_for_successor(control: ControlDatabase, before: int, killed_at: datetime) -> tuple[float, float]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with control.transaction() as cursor:
            launched = [one for one in read_open_launches(cursor, STREAM) if (one.generation or 0) > before]
            batches = [batch for batch in read_batches(cursor, STREAM) if batch.generation > before]
        if launched and batches:
            print(f"generation {batches[0].generation} delivers", flush=True)
            return (launched[0].asked_at - killed_at).total_seconds(), (batches[-1].finished_at - killed_at).total_seconds()
        time.sleep(0.5)
    raise TimeoutError(f"no batch of a new generation within {PATIENCE_SECONDS} s")


def _now(control: ControlDatabase) -> datetime:
    with control.transaction() as cursor:
        cursor.execute("SELECT now()")
        (now,) = cursor.fetchone() or (datetime.min,)
    return now


if __name__ == "__main__":
    main()
