"""docs/ says what the code does: generated parts are up to date, every runbook and exit class has a page, links lead somewhere.

Written anew by: make test ARGS="tests/unit/test_generated_docs.py --rewrite".
"""

import re
from pathlib import Path

import pytest

from include.contract.exit_class import ExitClass
from tests.generated_docs import documents, left_over_pages
from tests.generated_docs.exit_pages import exit_page
from tests.generated_docs.numbers import numbers_without_a_meaning
from tests.generated_docs.runbook_pages import RUNBOOK_FILES
from tests.running import PROJECT

HEADINGS = ("What it looks like", "Typical causes", "Is data at risk?", "What supervision does by itself", "What to do")
DOCUMENTS = sorted([PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *(PROJECT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def test_the_generated_parts_are_what_the_code_says(request: pytest.FixtureRequest) -> None:
    expected = documents()
    if request.config.getoption("--rewrite"):
        for page, text in expected.items():
            page.parent.mkdir(exist_ok=True)
            page.write_text(text)
    outdated = [str(page.relative_to(PROJECT)) for page, text in expected.items() if not _is(page, text)]
    assert outdated == [], 'run: make test ARGS="tests/unit/test_generated_docs.py --rewrite"'


def _is(page: Path, text: str) -> bool:
    return page.exists() and page.read_text() == text


def test_no_page_is_left_of_a_runbook_or_class_that_is_gone() -> None:
    assert left_over_pages() == []


def test_every_number_of_supervision_has_a_meaning() -> None:
    assert numbers_without_a_meaning() == [], "say in tests/generated_docs/numbers.py what it rules"


@pytest.mark.parametrize("exit_class", ExitClass, ids=lambda one: one.title)
def test_the_page_of_a_class_answers_what_a_person_on_call_asks(exit_class: ExitClass) -> None:
    sections = re.split(r"^## ", exit_page(exit_class).read_text(), flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections] == list(HEADINGS)
    assert all(len(section.splitlines()) > 2 for section in sections)


def test_the_readme_lists_every_class_with_its_code_and_page() -> None:
    readme = (PROJECT / "README.md").read_text()
    rows = {one: f"| {one.code} | [{one.title}](docs/exits/{exit_page(one).name}) |" for one in ExitClass}
    assert [row for row in rows.values() if row not in readme] == []


def test_the_index_tells_when_to_use_each_runbook() -> None:
    _, _, seen = (PROJECT / "docs" / "runbooks" / "README.md").read_text().partition("## What do you see?")
    assert [name for name in RUNBOOK_FILES if f"[{name}]({name}.md)" not in seen] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(PROJECT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text()) if "://" not in target]
    assert [target for target in targets if not (document.parent / target).exists()] == []
