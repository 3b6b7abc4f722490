"""Supervision without Airflow's scheduler: python -m tests.supervise_alone PASSES [--die before_start|after_start].

Two seconds between passes, as in the DAG. `--die`: by SIGKILL at the first launch, before or after the driver's process begins.
"""

import os
import signal
import sys
import time

from include.airflow_parts.supervision_tasks import make_supervisor
from include.control.database import ControlDatabaseDown
from include.processes.process_record import ProcessRecord
from include.supervision.launcher import DetachedLauncher


def main() -> None:
    if "--die" in sys.argv:
        die_at_launch(sys.argv[-1])
    supervisor = make_supervisor()
    for _ in range(int(sys.argv[1])):
        try:
            print("\n".join(f"{state.state}: {state.detail}" for state in supervisor.supervise("a test").states), flush=True)
        except ControlDatabaseDown as down:
            print(f"unknown: {down.happened}", flush=True)
        time.sleep(2)


def die_at_launch(when: str) -> None:
    start = DetachedLauncher.start

    def start_and_die(launcher: DetachedLauncher, stream: str, launch: str) -> ProcessRecord:
        if when == "after_start":
            start(launcher, stream, launch)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    DetachedLauncher.start = start_and_die  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
