"""The note of a commit: what was written is read back, and what is not ours is left alone."""

import pytest

from include.tidemarks.note import Kind, LedgerLine, Note, NoteUnreadable, Tidemark, read_note

MARK = Tidemark(generation=3, batch=7, offsets={0: 10, 2: 5}, topic_id="t", epoch=1)
NOTE = Note(
    stream="s", sink="lake", kind=Kind.BATCH, generation=3, owner="o", deployment="d", spec_hash="h", looked=4, tidemark=MARK,
    builds_on=MARK, made_by="h", quarantine=(3, -1), ledger=(LedgerLine(partition=0, start=1, end=10, read=9, delivered=9),),
)  # fmt: skip


def test_a_note_comes_back_as_it_was_written() -> None:
    assert read_note(5, NOTE.to_json()) == NOTE


@pytest.mark.parametrize("text", [None, "", "nightly load", '{"job": "etl"}'])
def test_what_others_write_is_no_note(text: str | None) -> None:
    assert read_note(5, text) is None


@pytest.mark.parametrize("text", ['{"tidemark_note":2}', '{"tidemark_note":1,"stream":"s"}', '{"tidemark_note"'])
def test_a_note_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(NoteUnreadable, match="Version 5 has a note"):
        read_note(5, text)


def test_a_tidemark_never_goes_down() -> None:
    moved = MARK.raised_to(4, 0, {0: 3, 1: 6, 2: 9})
    assert moved.offsets == {0: 10, 1: 6, 2: 9}
    assert (moved.generation, moved.batch, moved.topic_id) == (4, 0, "t")


def test_what_a_sink_is_apart_is_forgotten_where_it_has_caught_up() -> None:
    behind = MARK.model_copy(update={"apart": {0: 20, 2: 9}})
    moved = behind.raised_to(4, 0, {0: 15, 2: 9}, ("lake", "totals"))
    assert (moved.apart, moved.beside) == ({0: 20}, ("lake", "totals"))
    note = NOTE.model_copy(update={"tidemark": moved})
    assert read_note(5, note.to_json()) == note


def test_a_tidemark_covers_what_ends_at_or_below_it_and_an_absent_partition_is_at_0() -> None:
    assert MARK.covers({0: 10, 2: 5, 7: 0})
    assert not MARK.covers({0: 11})
    assert not MARK.covers({1: 1})
