"""`python -m include.local_stack.become_part RECORD COMMAND...`: forks a child that writes its own process record and then
becomes COMMAND, in a Unix session of its own.

So the record exists before the part does, and a `make up` that is killed at any instruction leaves no unknown process.
"""

import json
import os
import signal
import sys
from pathlib import Path

from include.local_stack.processes import INTERRUPTIONS, start_ticks


def main() -> None:
    record, *command = sys.argv[1:]
    read_end, write_end = os.pipe()  # both close by themselves when the child becomes COMMAND
    if os.fork() == 0:
        os.close(read_end)
        _become(Path(record), command)
    os.close(write_end)
    os.read(read_end, 1)  # returns when the child has become COMMAND, or has died


def _become(record: Path, command: list[str]) -> None:
    os.setsid()
    unfinished = record.with_suffix(".new")
    unfinished.write_text(json.dumps({"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}))
    unfinished.replace(record)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)  # blocked by `start_detached`, inherited by us
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
