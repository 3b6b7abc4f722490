"""Turns the outcome of a command into an exit code and one readable message. Standard library only."""

import errno
import sys
from collections.abc import Callable
from contextlib import suppress

from include.contract.errors import TidemarkError
from include.local_stack.disk import DiskFull

INTERRUPTED = 130  # what shells report for Ctrl-C


def exit_code_of(command: Callable[[], int], *, if_interrupted: str) -> int:
    """Errors that a person can act on are told without a traceback; anything else is a bug, and shows its own."""
    try:
        return command()
    except TidemarkError as error:
        _tell(str(error))
        return 1
    except KeyboardInterrupt:
        _tell(f"Interrupted: {if_interrupted}")
        return INTERRUPTED
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _tell(str(_disk_full(error)))
        return 1


def _tell(message: str) -> None:
    with suppress(OSError):
        print(f"\n{message}", file=sys.stderr, flush=True)


def _disk_full(error: OSError) -> DiskFull:
    return DiskFull(
        f"The disk is full: {error.filename or error.strerror}.",
        state="Parts that this command started are stopped again; data written before is kept.",
        next_step="Free some space (`df -h` shows the disks), then run the same command again.",
    )
