"""`make screenshots`: pictures of what a person on call sees in Airflow, for docs/. Look at each of them before committing it."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

from include.contract.errors import TidemarkError
from include.local_stack.airflow_settings import PASSWORD, USER, airflow_url
from include.local_stack.exit_code import exit_code_of
from include.local_stack.progress import say, step
from include.processes.interruptions import hear_all_alike
from tests.browser.world import World, world
from tests.running import PROJECT

FOLDER = PROJECT / "docs" / "screenshots"
VIEWPORT = {"width": 1400, "height": 900}
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000
LOADING = "[role=progressbar], .chakra-skeleton[data-loading]"
VISIBLE = "{visibilityProperty: true}"  # Airflow keeps its bars in the page and only hides them


class ChromiumMissing(TidemarkError):
    """There is no browser to take pictures with."""


def main() -> int:
    hear_all_alike()
    return exit_code_of(_take_all, if_interrupted="the stack of the pictures is stopped; pictures that were taken stay.")


def _take_all() -> int:
    chromium = _chromium()
    with world() as made:
        take_all(made, chromium)
    say(f"\nLook at them: {', '.join(str(FOLDER.relative_to(PROJECT) / f'{name}.png') for name in PICTURES)}")
    return 0


def take_all(made: World, chromium: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with _logged_in(browser, made) as page:
            for name, show in PICTURES.items():
                with step(f"{name}.png"):
                    show(page, made)
                    _settle(page)
                    page.screenshot(path=FOLDER / f"{name}.png")


def show_dags(page: Page, made: World) -> None:
    """As a table, which has room for all of them."""
    page.goto("/dags")
    page.get_by_role("button", name="Show table view").click()
    page.get_by_text("supervise_streams").first.wait_for()


def show_trigger_form(page: Page, made: World) -> None:
    page.goto("/dags/restart_stream")
    page.get_by_role("button", name="Trigger").first.click()
    page.get_by_role("dialog").get_by_role("combobox").fill("orders_raw")
    page.keyboard.press("Enter")
    page.fill("[name=element_reason]", "Its stream file has changed: smaller batches")


def show_approval(page: Page, made: World) -> None:
    page.goto(f"/dags/start_stream/runs/{quote(made.waiting)}/tasks/approve/required_actions")
    page.get_by_role("button", name="Approve").wait_for()


def show_supervise_log(page: Page, made: World) -> None:
    page.goto(f"/dags/supervise_streams/runs/{quote(made.supervised)}/tasks/watch")
    page.get_by_text("WHAT WAS SEEN").first.wait_for()


PICTURES: dict[str, Callable[[Page, World], None]] = {
    "dags": show_dags,
    "trigger_form": show_trigger_form,
    "approval": show_approval,
    "supervise_log": show_supervise_log,
}


@contextmanager
def _logged_in(browser: Browser, made: World) -> Iterator[Page]:
    stack = made.stack
    context = browser.new_context(
        base_url=airflow_url(stack.ports.chosen),
        viewport=VIEWPORT,
        color_scheme="light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto("/auth/login/")
    page.fill("input[name=username]", USER)
    page.fill("input[name=password]", stack.home.secret(PASSWORD))
    page.click("[type=submit]")
    page.wait_for_url(lambda url: "/auth/login" not in url)
    yield page
    context.close()
    browser.close()


def _settle(page: Page) -> None:
    """Nothing is under way, and no bar or skeleton says that something is."""
    page.wait_for_load_state("networkidle")
    page.wait_for_function(f"![...document.querySelectorAll({LOADING!r})].some(one => one.checkVisibility({VISIBLE}))")


def _chromium() -> str:
    asked = os.environ.get("CHROMIUM")
    found = asked or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None or not Path(found).exists():
        raise ChromiumMissing(
            f"There is no {found or 'Chromium'} on this machine.",
            state="Nothing was started.",
            next_step="Install the package chromium, or name the program: make screenshots CHROMIUM=/usr/bin/chromium.",
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
