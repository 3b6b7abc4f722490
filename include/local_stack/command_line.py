"""What a person types and sees. Decides nothing: asks `Stack`, prints, and turns the outcome into an exit code."""

import argparse
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from include.contract.errors import TidemarkError
from include.control.database import ControlDatabase, ControlDatabaseDown
from include.local_stack.airflow import Scheduler
from include.local_stack.airflow_settings import PASSWORD, USER, airflow_url
from include.local_stack.demo.sabotage import SABOTAGE
from include.local_stack.demo.story import run_demo
from include.local_stack.drivers import running_drivers
from include.local_stack.exit_code import exit_code_of
from include.local_stack.home import PROJECT, VAR, StackHome, stacks_below
from include.local_stack.part import Part
from include.local_stack.postgres import PASSWORD as POSTGRES_PASSWORD
from include.local_stack.postgres import WAREHOUSE
from include.local_stack.progress import say, step
from include.local_stack.sample_orders import PAYMENTS, TOPIC, send_orders, send_payments
from include.local_stack.stack import Stack
from include.local_stack.status import PartStatus, render
from include.processes.interruptions import hear_all_alike
from include.supervision.outside_eye import look_from_outside

DEFAULT_HOME = StackHome(VAR / "stack")
IF_INTERRUPTED = {
    "up": "parts that this command started are stopped again; all data is kept.",
    "down": "some parts may still run; `make down` again stops them.",
    "clean": "var/ may be removed in part; `make clean` again removes the rest.",
    "demo": "its stack is stopped; all data is kept.",
}


class UnknownPart(TidemarkError):
    """A part that is not one of the stack's."""


class StackStopped(TidemarkError):
    """What needs a running stack."""


class StackRunning(TidemarkError):
    """What must not happen to a running stack."""


def main() -> int:
    wanted = _arguments()
    hear_all_alike()
    if_interrupted = IF_INTERRUPTED.get(wanted.run.__name__, "nothing was changed.")
    return exit_code_of(lambda: int(wanted.run(wanted)), if_interrupted=if_interrupted)


def up(wanted: argparse.Namespace) -> int:
    stack = Stack(wanted.home or DEFAULT_HOME)
    say(f"Starting the stack in {_short(stack.home.folder)}")
    asked_ports = {name: number for name, number in wanted.port if number}
    news = "The stack is up." if stack.up(asked_ports) else "The stack was running already; nothing was changed."
    say(f"\n{news}\n  Airflow   {airflow_url(stack.ports.chosen)}")
    say(f"  user      {USER}, password in {_short(stack.home.secret_file(PASSWORD))}")
    say(f"  Kafka     {stack.kafka.connection.address}")
    database = stack.postgres.connection(WAREHOUSE)
    where = f"{database.address}, database {database.schema}, user {database.login}"
    say(f"  Postgres  {where}, password in {_short(stack.home.secret_file(POSTGRES_PASSWORD))}")
    say("  next      make status, make logs PART=kafka, make down")
    for part in stack.status():
        if not part.is_healthy:
            say(f"  but       {part.name}: {part.detail}")
    return 0


def down(wanted: argparse.Namespace) -> int:
    homes = [wanted.home] if wanted.home else stacks_below(VAR)
    stopped = {home: Stack(home).down() for home in homes}
    for home, parts in stopped.items():
        if parts:
            say(f"Stopped {_short(home.folder)}: {', '.join(parts)}. The data is kept.")
    if not any(stopped.values()):
        say("Nothing was running.")
    return 0


def status(wanted: argparse.Namespace) -> int:
    stack = Stack(wanted.home or DEFAULT_HOME)
    parts = stack.status()
    if not parts:
        say("There is no stack yet: run `make up`.")
        return 1
    say(render(parts))
    return 0 if _streams_are_well(stack, parts) and all(part.is_healthy for part in parts) else 1


def _streams_are_well(stack: Stack, parts: list[PartStatus]) -> bool:
    up_seconds = next((part.age_seconds for part in parts if part.name == Scheduler.name), None)
    try:
        look = look_from_outside(ControlDatabase(stack.postgres.connection("tidemark")), up_seconds)
    except ControlDatabaseDown as down:
        say(f"\nStreams: unknown. {down.happened} {down.state}")
        return False
    say(f"\n{look.text}")
    return look.is_well


def logs(wanted: argparse.Namespace) -> int:
    home = wanted.home or DEFAULT_HOME
    parts: dict[str, Part] = {part.name: part for part in Stack(home).parts} if home.ports_file.exists() else {}
    if wanted.part not in parts:
        raise UnknownPart(
            f"There is no part {wanted.part!r} to show a log of.",
            state="Nothing was changed.",
            next_step=f"Use PART= with one of: {', '.join(parts)}." if parts else "Run `make up` first.",
        )
    say(f"# {_short(home.log(wanted.part))}")
    say("\n".join(parts[wanted.part].last_log_lines(wanted.lines)))
    return 0


def orders(wanted: argparse.Namespace) -> int:
    stack = _running_stack(wanted)
    with step(f"sending {wanted.records:,} orders to topic {TOPIC}"):
        send_orders(stack.kafka.connection.address, wanted.records)
    return 0


def payments(wanted: argparse.Namespace) -> int:
    stack = _running_stack(wanted)
    with step(f"sending {wanted.records:,} payments to topic {PAYMENTS}"):
        send_payments(stack.kafka.connection.address, wanted.records)
    return 0


def _running_stack(wanted: argparse.Namespace) -> Stack:
    stack = Stack(wanted.home or DEFAULT_HOME)
    if not (stack.home.ports_file.exists() and stack.kafka.is_alive):
        raise StackStopped(
            "The stack is not running, so there is no broker to ask.", state="Nothing was read.", next_step="Run `make up` first."
        )
    return stack


def module(wanted: argparse.Namespace) -> NoReturn:
    """One of ours, in the foreground, with the connections of the running stack. This process becomes it, so that Ctrl-C
    reaches it and nobody kills it meanwhile."""
    stack = _running_stack(wanted)
    os.chdir(PROJECT)
    os.execve(sys.executable, [sys.executable, "-m", wanted.name, *wanted.arguments], stack.job_environment())


def clean(wanted: argparse.Namespace) -> int:
    var = VAR.resolve()
    if not var.exists():
        say("There is no var/ to remove.")
        return 0
    _refuse_if_running(var)
    say(f"Remove {_short(var)}/ with every table, topic, log and password of this clone? Type yes: ", end="")
    if sys.stdin.readline().strip() != "yes":
        say("\nNothing was removed.")
        return 1
    with ExitStack() as locks:
        for home in stacks_below(var):
            locks.enter_context(home.only_one_at_a_time())
        _refuse_if_running(var)  # again: somebody may have started one while we asked
        shutil.rmtree(var)
    say(f"Removed {_short(var)}/.")
    return 0


def demo(wanted: argparse.Namespace) -> int:
    return 0 if run_demo(wanted.sabotage) else 1


def _refuse_if_running(var: Path) -> None:
    for home in stacks_below(var):
        if any(part.living_processes() for part in Stack(home).parts) or running_drivers(home):
            raise StackRunning(
                f"The stack in {_short(home.folder)} is running.",
                state="Nothing was removed.",
                next_step="Run `make down` first.",
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
    parser.add_argument("--home", type=lambda text: StackHome(Path(text).resolve()), help="default: var/stack")
    commands = parser.add_subparsers(required=True)
    for run in (up, down, status, logs, orders, payments, module, clean, demo):
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        if run is up:
            command.add_argument("--port", action="append", default=[], type=_asked_port, metavar="NAME=NUMBER")
        if run is logs:
            command.add_argument("part")
            command.add_argument("--lines", type=int, default=50)
        if run is demo:
            command.add_argument("--sabotage", choices=list(SABOTAGE))
        if run in (orders, payments):
            command.add_argument("--records", type=int, default=100_000)
        if run is module:
            command.add_argument("name", choices=["jobs.run_stream", "jobs.sample_stream", "include.supervision"])
            command.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()
