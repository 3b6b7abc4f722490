"""`python -m include.processes.become PARENT RECORD COMMAND...`: forks a child that writes its own process record
and then becomes COMMAND, in a Unix session of its own.

Until the record is written, parent and child die with the `make up` that asked for them; afterwards the record tells of
the child. So there is no instruction at which a killed `make up` leaves an unknown process.
"""

import os
import signal
import sys
from pathlib import Path

from include.processes.die_with_parent import die_with, live_on
from include.processes.interruptions import INTERRUPTIONS
from include.processes.process_record import write_own_record


def main() -> None:
    parent, record, *command = sys.argv[1:]
    die_with(int(parent))
    read_end, write_end = os.pipe()  # both close by themselves when the child becomes COMMAND
    forker = os.getpid()
    if os.fork() == 0:
        os.close(read_end)
        die_with(forker)
        _become(Path(record), command)
    os.close(write_end)
    os.read(read_end, 1)  # returns when the child has become COMMAND, or has died


def _become(record: Path, command: list[str]) -> None:
    os.setsid()
    write_own_record(record)
    live_on()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)  # blocked by `start_detached`, inherited by us
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
