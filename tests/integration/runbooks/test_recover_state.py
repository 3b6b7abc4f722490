"""`recover_stream` of a stateful stream: from the newest backup, by a warm-up, and without what nobody has any more."""

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from include.control.database import ControlDatabase
from include.start_plan.event_times import read_time
from include.supervision.runbooks.request import RequestRefused
from tests.integration.runbooks.test_recover_modes import Desk, desk, stream
from tests.payments import TIMED, Event, counted_once, send
from tests.running import wait_for
from tests.streams import TrialStream

__all__ = ["desk", "stream"]

FIRST = [Event(f"a{n}", "u", n / 4, partition=n % 3) for n in range(60)]
SECOND = [Event(f"b{n}", "u", 15 + n / 4, partition=n % 3) for n in range(20)]
AGAIN = [Event(f"a{n}", "u", n / 4, partition=(n + 1) % 3) for n in range(50, 60)]


def wait_for_ids(stream: TrialStream, events: list[Event]) -> None:
    wanted = Counter(dict.fromkeys(counted_once(events), 1))
    wait_for("each id to be there once", lambda: Counter(row["event_id"] for row in stream.rows()) == wanted, 60)


def delete_from_kafka(stream: TrialStream, ends: dict[int, int]) -> None:
    admin = stream.admin()  # kept: its answers come only while it lives
    for done in admin.delete_records([TopicPartition(stream.name, number, end) for number, end in ends.items()]).values():
        done.result(15)


def approved_time(control: ControlDatabase, stream: TrialStream) -> int:
    with control.transaction() as cursor:
        cursor.execute("SELECT approvals FROM launch WHERE stream = %s ORDER BY asked_at DESC LIMIT 1", [stream.name])
        ((approvals,),) = cursor.fetchall()
    return int(approvals["forget_through_ms"])


def test_a_state_comes_from_a_backup_from_kafka_or_is_forgotten_up_to_a_time(
    stream: TrialStream, desk: Desk, own_control: ControlDatabase
) -> None:
    stream.write_file(**TIMED)
    send(stream, FIRST)
    desk.run("start_stream")
    wait_for_ids(stream, FIRST)
    with pytest.raises(RequestRefused, match="mode rebuild is not for it"):
        desk.run("recover_stream", "rebuild")
    with pytest.raises(RequestRefused, match="There is nothing to accept by mode forget"):
        desk.run("recover_stream", "forget")

    desk.run("stop_stream")
    shutil.rmtree(stream.checkpoints)
    send(stream, [*SECOND, *AGAIN])
    assert re.search(r"State: b\w+Z-c000001 is continued from its batch", desk.run("recover_stream", "restore"))
    wait_for_ids(stream, [*FIRST, *SECOND, *AGAIN])

    assert re.search(r"State: c000002 is continued from its batch", desk.run("recover_stream", "continue"))

    desk.run("stop_stream")
    for file in backup_files(stream):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(RequestRefused, match=r"(?s)is not as it was copied.*There is no backup from which"):
        desk.run("recover_stream", "restore")
    plan = desk.run("recover_stream", "warm_up")
    assert "Before that 90 offsets are read again for its state." in plan
    assert "State: made again from Kafka, 90 offsets from 0: 0, 1: 0, 2: 0" in plan

    desk.run("stop_stream")
    shutil.rmtree(stream.checkpoints)
    delete_from_kafka(stream, {0: 25, 1: 25, 2: 25})
    with pytest.raises(RequestRefused, match=r"mode restore, as a dry run .* mode forget"):
        desk.run("recover_stream", "continue")
    plan = desk.run("recover_stream", "forget")
    named = re.search(r"FORGET=([^\s)]+)\)", plan)
    assert named is not None
    assert approved_time(own_control, stream) == read_time(named[1])


def backup_files(stream: TrialStream) -> list[Path]:
    return list((stream.stack.home.folder / "backups" / stream.name).glob("b*/metadata"))
