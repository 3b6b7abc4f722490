"""`python -m include.processes.die_with_parent PARENT COMMAND...`: becomes COMMAND, which ends when PARENT does.

For helpers such as initdb: a `make up` that is killed must not leave one at work on the data behind its back.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def bound_to_this_process(command: list[str]) -> list[str]:
    return [sys.executable, "-m", "include.processes.die_with_parent", str(os.getpid()), *command]


def die_with(parent: int) -> None:
    """From now on the kernel kills this process when its parent ends, also by SIGKILL."""
    _set_death_signal(signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os.kill(os.getpid(), signal.SIGKILL)


def live_on() -> None:
    _set_death_signal(0)


def _set_death_signal(number: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
