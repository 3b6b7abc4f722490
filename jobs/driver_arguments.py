"""What a driver is started with: a launch that is written down, or, by hand, what a person approves on the command line."""

import argparse
import getpass
import re
from typing import get_args

from include.contract.catalog import Stream
from include.control.database import ControlDatabase
from include.control.generations import write_launch
from include.start_plan.approvals import Approvals, ApprovedLoss, TakeState
from include.start_plan.event_times import read_time


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs one stream.")
    parser.add_argument("stream")
    parser.add_argument("--launch", help="the id of a launch that is written down already")
    parser.add_argument("--once", action="store_true", help="end when everything that is in the topic now is delivered")
    parser.add_argument("--approve-loss", action="append", default=[], type=_loss, metavar="PARTITION:FROM:CEILING")
    parser.add_argument("--accept", action="append", default=[], type=_change, metavar="SINK:VERSION")
    parser.add_argument("--accept-topic", metavar="ID", help="go on with a topic that was made anew, as a new epoch")
    ways = get_args(TakeState)
    parser.add_argument("--state", choices=ways, default=ways[0], help="from what a stateful stream takes its state")
    parser.add_argument("--forget-through", type=_time, metavar="TIME", help="events up to then need not be in that state")
    return parser.parse_args(arguments)


def write_own_launch(control: ControlDatabase, stream: Stream, wanted: argparse.Namespace) -> str:
    """Started by hand: the launch is written here, before anything else."""
    losses, changes = tuple(wanted.approve_loss), frozenset(wanted.accept)
    approvals = Approvals(
        losses=losses,
        changes=changes,
        new_topic=wanted.accept_topic,
        state=wanted.state,
        forget_through_ms=wanted.forget_through,
    )
    user, told = getpass.getuser(), approvals.model_dump(mode="json")
    return write_launch(control, stream.name, asked_by=user, reason="make run", approvals=told).id


def _loss(text: str) -> ApprovedLoss:
    if not re.fullmatch(r"\d+:\d+:\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not partition:from:ceiling, such as 3:8400:9120")
    partition, start, ceiling = (int(number) for number in text.split(":"))
    return ApprovedLoss(partition=partition, start=start, ceiling=ceiling)


def _change(text: str) -> tuple[str, int]:
    if not re.fullmatch(r"\w+:\d+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not sink:version, such as lake:17")
    sink, version = text.split(":")
    return sink, int(version)


def _time(text: str) -> int:
    try:
        return read_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time as the plan prints it, 2026-01-01T12:00:00.000Z") from error
