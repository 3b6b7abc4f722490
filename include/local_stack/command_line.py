"""What a person types and sees. Decides nothing: asks `Stack`, prints, and turns the outcome into an exit code."""

import argparse
import errno
import os
import shutil
import sys
from pathlib import Path

from include.contract.errors import TidemarkError
from include.local_stack.airflow_settings import PASSWORD, USER, airflow_url
from include.local_stack.demo import run_demo
from include.local_stack.disk import DiskFull
from include.local_stack.home import VAR, StackHome
from include.local_stack.part import Part
from include.local_stack.progress import say
from include.local_stack.stack import Stack
from include.local_stack.status_table import render

INTERRUPTED = 130  # what shells report for Ctrl-C


class UnknownPart(TidemarkError):
    """A part that is not one of the stack's."""


def main() -> int:
    wanted = _arguments()
    try:
        return int(wanted.run(wanted))
    except TidemarkError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted: what this command had started is stopped again; all data is kept.", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"\n{_disk_full(error)}", file=sys.stderr)
        return 1


def up(wanted: argparse.Namespace) -> int:
    stack = Stack(wanted.home)
    say(f"Starting the stack in {_short(stack.home.folder)}")
    news = (
        "The stack is up."
        if stack.up({name: number for name, number in wanted.port if number})
        else "The stack was running already; nothing was changed."
    )
    say(f"\n{news}\n  Airflow   {airflow_url(stack.ports.chosen)}")
    say(f"  user      {USER}, password in {_short(stack.home.secret_file(PASSWORD))}")
    say(f"  Kafka     {stack.kafka.connection.address}")
    say("  next      make status, make logs PART=kafka, make down")
    return 0


def down(wanted: argparse.Namespace) -> int:
    stopped = Stack(wanted.home).down()
    say(f"Stopped: {', '.join(stopped)}. The data is kept." if stopped else "Nothing was running.")
    return 0


def status(wanted: argparse.Namespace) -> int:
    parts = Stack(wanted.home).status()
    if not parts:
        say("There is no stack yet: run `make up`.")
        return 1
    say(render(parts))
    return 0 if all(part.is_healthy for part in parts) else 1


def logs(wanted: argparse.Namespace) -> int:
    parts: dict[str, Part] = {part.name: part for part in Stack(wanted.home).parts} if wanted.home.ports_file.exists() else {}
    if wanted.part not in parts:
        raise UnknownPart(
            f"There is no part {wanted.part!r} to show a log of.",
            state="Nothing was changed.",
            next_step=f"Use PART= with one of: {', '.join(parts)}." if parts else "Run `make up` first.",
        )
    say(f"# {_short(wanted.home.log(wanted.part))}")
    say("\n".join(parts[wanted.part].last_log_lines(wanted.lines)))
    return 0


def clean(wanted: argparse.Namespace) -> int:
    homes = [StackHome(folder) for folder in VAR.glob("*") if (folder / "ports.json").exists()]
    if running := [home for home in homes if any(part.process for part in Stack(home).parts)]:
        say(f"{_short(running[0].folder)} is running. Nothing was removed. Run `make down` first.")
        return 1
    if not VAR.exists():
        say("There is no var/ to remove.")
        return 0
    print(f"Remove {_short(VAR)}/ with every table, topic, log and password of this clone? Type yes: ", end="", flush=True)
    if sys.stdin.readline().strip() != "yes":
        say("\nNothing was removed.")
        return 1
    shutil.rmtree(VAR)
    say(f"Removed {_short(VAR)}/.")
    return 0


def demo(wanted: argparse.Namespace) -> int:
    return 0 if run_demo() else 1


def _disk_full(error: OSError) -> DiskFull:
    return DiskFull(
        f"The disk is full: {error.filename or error.strerror}.",
        state="What this command had started is stopped again; data written before is kept.",
        next_step="Free some space (`df -h` shows the disks), then run the same command again.",
    )


def _short(path: Path) -> str:
    return os.path.relpath(path)


def _asked_port(text: str) -> tuple[str, int]:
    """`kafka=9092`; `kafka=` asks for any free port, which is 0."""
    name, _, number = text.partition("=")
    if number and not (number.isdecimal() and 0 < int(number) < 65536):
        raise argparse.ArgumentTypeError(f"{name.upper()}_PORT is {number!r}, but a port is a number from 1 to 65535")
    return name, int(number or 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m include.local_stack", description=__doc__)
    parser.add_argument("--home", type=lambda text: StackHome(Path(text).resolve()), default=StackHome(VAR / "stack"))
    commands = parser.add_subparsers(required=True)
    for run in (up, down, status, logs, clean, demo):
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        if run is up:
            command.add_argument("--port", action="append", default=[], type=_asked_port, metavar="NAME=NUMBER")
        if run is logs:
            command.add_argument("part")
            command.add_argument("--lines", type=int, default=50)
    return parser.parse_args()
