"""`make` alone lists the targets; every target a document names exists."""

import re
import subprocess

from tests.running import PROJECT


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))


def test_make_alone_lists_every_target() -> None:
    listed = subprocess.run(["make", "-s"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in listed.splitlines()} == targets()


def test_every_target_that_the_documents_and_messages_name_exists() -> None:
    texts = [
        *PROJECT.glob("*.md"),
        *PROJECT.glob("docs/**/*.md"),
        *PROJECT.glob("include/**/*.py"),
        PROJECT / "docker-compose.yaml",
    ]
    named = {name for text in texts for name in re.findall(r"`make ([a-z-]+)", text.read_text())}
    assert {"up", "down", "test", "demo"} <= named
    assert named <= targets()
