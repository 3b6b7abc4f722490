"""What a stream promises, with the reasons; and what is refused because it cannot be promised."""

import pytest

from include.contract import __main__ as contract
from include.contract.catalog import Stream, load_streams
from include.contract.environment import load_environment
from include.contract.guarantee import guarantees
from include.contract.places import NoObjectStoreYet, Places


def test_an_append_to_a_table_on_a_file_system_promises_exactly_once() -> None:
    (lake,) = guarantees(load_streams()["orders_raw"], load_environment("local"))
    assert (lake.sink, lake.promise) == ("lake", "exactly once")
    assert [reason.partition("(")[2] for reason in lake.reasons if "(" in reason] == ["P4)", "P3.3)"]


def test_windows_promise_absolute_values_from_a_state_that_is_made_again() -> None:
    (lake,) = guarantees(load_streams()["payment_totals"], load_environment("local"))
    assert lake.promise == "exactly once"
    assert lake.reasons[0].startswith("the newest values of each key and window, tidemark and ledger become visible in one Delta")
    assert lake.reasons[3:] == (
        "duplicates are told and windows are kept by Spark's watermark state, which is rebuilt from Kafka when it is lost (P6)",
        "of the copies of a key whose event times lie within 10 minutes of each other one is delivered, unless all of them are "
        "late; which one is not promised (P6.5)",
        "results are absolute values, so a replayed batch writes the same values over them (P6.1)",
        "late records change no row, and are counted by a read of their own of each batch's range (P6.4)",
    )


def test_dedupe_alone_speaks_of_no_windows_and_says_where_late_records_are() -> None:
    shipped = load_streams()["user_event_counts"]
    stream = Stream(shipped.name, shipped.spec.model_copy(update={"late": "quarantine"}), shipped.schema)
    (counts,) = guarantees(stream, load_environment("local"))
    assert counts.reasons[3] == "duplicates are told by Spark's watermark state, which is rebuilt from Kafka when it is lost (P6)"
    assert counts.reasons[-1].startswith("late records change no row, and are quarantined by")
    assert not [reason for reason in counts.reasons if "window" in reason]


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
