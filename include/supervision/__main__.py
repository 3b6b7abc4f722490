"""What a person or a monitor asks without Airflow: `status`, `plan STREAM`, `journal STREAM`. Reads only."""

import argparse
import sys
from typing import get_args

from include.contract.catalog import find_stream
from include.contract.connections import read_connection
from include.contract.environment import load_environment
from include.contract.errors import TidemarkError
from include.control.database import ControlDatabase
from include.control.journal import read_journal
from include.start_plan.approvals import Approvals, TakeState
from include.start_plan.now import plan_now
from include.start_plan.objection import Verdict
from include.start_plan.render import render_plan
from include.supervision.outside_eye import look_from_outside


def main() -> int:
    wanted = _arguments()
    environment = load_environment()
    control = ControlDatabase(read_connection(environment.control.connection))
    try:
        return int(wanted.run(wanted, control))
    except TidemarkError as error:
        print(error, file=sys.stderr)
        return 1


def status(wanted: argparse.Namespace, control: ControlDatabase) -> int:
    look = look_from_outside(control)
    print(look.text)
    return 0 if look.is_well else 1


def plan(wanted: argparse.Namespace, control: ControlDatabase) -> int:
    """Exit code 0 only if a start would be SAFE."""
    stream = find_stream(wanted.stream)
    control.migrate()
    world, planned = plan_now(stream, load_environment(), control, Approvals(state=wanted.state))
    print(render_plan(stream, world, planned))
    return 0 if planned.verdict is Verdict.SAFE else 1


def journal(wanted: argparse.Namespace, control: ControlDatabase) -> int:
    control.migrate()
    with control.transaction() as cursor:
        entries = read_journal(cursor, wanted.stream, wanted.lines)
    print("\n".join(entry.line() for entry in entries) or f"The journal has nothing about {wanted.stream}.")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m include.supervision", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for run in (status, plan, journal):
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        if run is not status:
            command.add_argument("stream")
        if run is plan:
            command.add_argument("--state", choices=get_args(TakeState), default="continue", help="of a stateful stream")
        if run is journal:
            command.add_argument("--lines", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
