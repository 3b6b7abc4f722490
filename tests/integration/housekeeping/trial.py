"""A stream's past in the control database, as old as a test needs it. No driver ran: only the rows are real."""

import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from include.contract.exit_class import ExitClass
from include.contract.identity import LAUNCH_VARIABLE
from include.control.database import ControlDatabase
from include.control.drivers import record_process
from include.control.generations import take_generation, write_launch
from include.control.progress import DriverExit, record_exit
from include.processes.process_record import own_record

ENDED = DriverExit(ExitClass.STOPPED, "as asked", "", "", {})


class Past:
    def __init__(self, control: ControlDatabase) -> None:
        self.control = control
        self.stream = f"past_{uuid.uuid4().hex[:8]}"

    def launch(self, days: float, *, ended: bool = True, request: str | None = None) -> str:
        """A driver that took a generation so many days ago and ended at once, or was never heard of again."""
        launch = write_launch(self.control, self.stream, asked_by="a test", reason="x", approvals={}, request=request).id
        number = take_generation(self.control, self.stream, launch, "hash", 0).number
        with self.control.transaction() as cursor:
            record_process(cursor, launch, socket.gethostname(), own_record(), detached=True)
            if ended:
                record_exit(cursor, launch, self.stream, number, ENDED)
            age = {"age": timedelta(days=days), "launch": launch}
            cursor.execute("UPDATE launch SET asked_at = now() - %(age)s WHERE id = %(launch)s", age)
            cursor.execute("UPDATE driver_process SET seen_at = now() - %(age)s WHERE launch = %(launch)s", age)
            cursor.execute("UPDATE driver_exit SET ended_at = now() - %(age)s WHERE launch = %(launch)s", age)
        return launch

    def execute(self, statement: str, **values: object) -> None:
        with self.control.transaction() as cursor:
            cursor.execute(statement, {"stream": self.stream, **values})

    def column(self, statement: str) -> list[object]:
        with self.control.transaction() as cursor:
            cursor.execute(statement, {"stream": self.stream})
            return [value for (value,) in cursor.fetchall()]


@contextmanager
def living_driver(launch: str) -> Iterator[None]:
    """A process that carries the launch, as all of a driver's do."""
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, LAUNCH_VARIABLE: launch})
    try:
        yield
    finally:
        process.kill()
        process.wait(10)
