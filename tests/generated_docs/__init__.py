"""The documents that are made from code: a page per runbook, the head of a page per exit class, the table of states.

tests/unit/test_generated_docs.py compares them with docs/, and writes them anew with --rewrite.
"""

from pathlib import Path

from include.contract.exit_class import ExitClass
from tests.generated_docs.exit_pages import EXITS, exit_head, exit_index, exit_page
from tests.generated_docs.marks import beside_hand_written
from tests.generated_docs.runbook_pages import RUNBOOKS, describe_dags, runbook_index, runbook_page
from tests.generated_docs.states_page import STATES, states_page


def documents() -> dict[Path, str]:
    """What each file should be. A hand-written part is taken from the file as it is."""
    return {
        **{RUNBOOKS / f"{name}.md": runbook_page(name, dag) for name, dag in describe_dags().items()},
        RUNBOOKS / "README.md": beside_hand_written(RUNBOOKS / "README.md", runbook_index()),
        **{exit_page(one): beside_hand_written(exit_page(one), exit_head(one)) for one in ExitClass},
        EXITS / "README.md": exit_index(),
        STATES: states_page(),
    }


def left_over_pages() -> list[str]:
    """Of runbooks and classes that there are no more."""
    expected = documents()
    return [page.name for folder in (RUNBOOKS, EXITS) for page in folder.iterdir() if page not in expected]
