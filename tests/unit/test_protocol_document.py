"""docs/protocol.md names tests and failpoints that there are."""

import re

from jobs.failpoints import Failpoint
from tests.running import PROJECT

DOCUMENT = (PROJECT / "docs" / "protocol.md").read_text()
LINK = re.compile(r"\[([^\[\]]*?)\]\(\.\./(tests/[^)]+\.py)\)", re.DOTALL)


def test_every_test_it_names_is_in_the_file_it_links_to() -> None:
    named = [(name.strip(), file) for names, file in LINK.findall(DOCUMENT) for name in names.split(",")]
    assert len(named) > 30
    assert [(name, file) for name, file in named if f"def {name}(" not in (PROJECT / file).read_text()] == []


def test_every_failpoint_is_described() -> None:
    assert [point for point in Failpoint if f"`{point}`" not in DOCUMENT] == []
