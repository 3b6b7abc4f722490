"""`python -m include.local_stack.become_part RECORD COMMAND...`: writes its own process record, then becomes COMMAND.

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
    unfinished = Path(f"{record}.new")
    unfinished.write_text(json.dumps({"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}))
    unfinished.replace(record)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTIONS)  # blocked by the parent, inherited by us
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
