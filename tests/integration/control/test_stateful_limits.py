"""P3.9: ends for lack of memory change the batch size of a stateless stream alone; a stateful one's third is an incident."""

import pytest

from include.contract.catalog import Stream, load_streams
from include.contract.exit_class import ExitClass
from include.control.database import ControlDatabase
from include.control.generations import write_launch
from include.control.progress import DriverExit
from jobs.reporter import Reporter

STREAMS = load_streams()


@pytest.mark.parametrize("is_stateful", [True, False], ids=["stateful", "stateless"])
def test_only_a_stateless_stream_is_remembered_as_too_big(own_control: ControlDatabase, is_stateful: bool) -> None:
    stream: Stream = next(one for one in STREAMS.values() if one.spec.is_stateful is is_stateful)
    own_control.migrate()
    launch = write_launch(own_control, stream.name, asked_by="a test", reason="to end", approvals={}).id
    ended = DriverExit(ExitClass.OUT_OF_MEMORY, "It had too little.", "Nothing was written.", "Give it more.", {})
    Reporter(own_control, launch, stream, {}, lambda _: None).finish(ended, 1000)
    with own_control.transaction() as cursor:
        cursor.execute("SELECT class FROM driver_exit WHERE stream = %s", [stream.name])
        assert cursor.fetchall() == [("out of memory",)]
        cursor.execute("SELECT failures FROM batch_limit WHERE stream = %s", [stream.name])
        assert cursor.fetchall() == ([] if is_stateful else [(1,)])
