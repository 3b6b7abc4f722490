"""Which files are rewritten, and which of them in one commit."""

import pytest

from jobs.maintenance.choosing import Limit, TableFile, files_to_make, groups_to_rewrite, split

MB = 1_000_000
MONDAY, TUESDAY = (("day", "2026-11-16"),), (("day", "2026-11-17"),)


def file(path: str, megabytes: int, day: tuple[tuple[str, str | None], ...] = MONDAY, marked: int = 0) -> TableFile:
    return TableFile(path, day, megabytes * MB, 1000, marked)


@pytest.mark.parametrize(
    ("files", "groups"),
    [
        ([], []),
        ([file("a", 1)], []),
        ([file("a", 1), file("b", 1)], ["ab"]),
        ([file("a", 1), file("b", 200)], []),
        ([file("a", 1), file("b", 64), file("c", 63)], ["ac"]),
        ([file("a", 1), file("b", 1, TUESDAY)], []),
        ([file("a", 1), file("b", 1, TUESDAY), file("c", 1), file("d", 1, TUESDAY)], ["acbd"]),
        ([file("a", 200, marked=99)], []),
        ([file("a", 200, marked=100)], ["a"]),
        ([file("a", 1), file("b", 200, marked=100)], ["ab"]),
        ([file(name, 60) for name in "abcdefg"], ["abcd", "efg"]),
        ([file(name, 60) for name in "abcde"], ["abcd"]),
        ([file("a", 1, (("day", None),)), file("b", 1, (("day", None),))], ["ab"]),
    ],
    ids=[
        *("no file", "one small file", "two small files", "a small and a large one", "half the size is not small"),
        *("one small file in each of two partitions", "two small files in each of two partitions"),
        *("few marked rows", "many marked rows", "a small file beside a marked one"),
        *("more than a commit takes", "a file that would be alone in its commit", "the partition of rows without a value"),
    ],
)
def test_chosen_are(files: list[TableFile], groups: list[str]) -> None:
    chosen = groups_to_rewrite(files, 128 * MB, Limit(256 * MB))
    assert ["".join(one.path for one in group) for group in chosen] == groups


def test_a_commit_holds_no_more_files_than_the_limit_says() -> None:
    assert [len(part) for part in split([file(str(number), 0) for number in range(5)], Limit(1, 2))] == [2, 2, 1]


@pytest.mark.parametrize(("total", "files"), [(0, 1), (127, 1), (255, 1), (256, 2), (1000, 7)])
def test_files_are_made_of_one_to_two_times_the_wanted_size(total: int, files: int) -> None:
    assert files_to_make(total * MB, 128 * MB) == files
