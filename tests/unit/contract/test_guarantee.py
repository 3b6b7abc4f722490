"""What a stream promises, with the reasons; and what is refused because it cannot be promised."""

import pytest

from include.contract import __main__ as contract
from include.contract.catalog import load_streams
from include.contract.environment import load_environment
from include.contract.guarantee import guarantees
from include.contract.places import NoObjectStoreYet, Places


def test_an_append_to_a_table_on_a_file_system_promises_exactly_once() -> None:
    (lake,) = guarantees(load_streams()["orders_raw"], load_environment("local"))
    assert (lake.sink, lake.promise) == ("lake", "exactly once")
    assert [reason.partition("(")[2] for reason in lake.reasons if "(" in reason] == ["P4)", "P3.3)"]


def test_an_object_store_promises_nothing_and_is_refused() -> None:
    stream, somewhere = load_streams()["orders_raw"], load_environment("local").model_copy(update={"lake": "s3a://bucket/lake"})
    (lake,) = guarantees(stream, somewhere)
    assert lake.promise == "none: refused at start"
    with pytest.raises(NoObjectStoreYet, match="s3a://bucket/lake"):
        Places.of(stream, somewhere)


def test_make_streams_shows_the_promise_of_each_sink(capsys: pytest.CaptureFixture[str]) -> None:
    contract.show_streams()
    said = capsys.readouterr().out
    assert "orders_raw: Every order once, in the lake\n" in said
    assert "  sink lake: exactly once, because\n    - rows, tidemark and ledger become visible in one Delta commit" in said
