"""How long a driver was away is measured when its successor commits, not when somebody asks."""

import json
import time
from pathlib import Path

import pytest

from include.local_stack.demo.driver import DemoDriver, DemoStuck
from include.local_stack.demo.eyes import LakeEye
from include.local_stack.home import StackHome
from include.local_stack.stack import Stack


def commit(log: Path, generation: int) -> None:
    note = {
        "kind": "batch",
        "tidemark": {"generation": generation, "batch": 0, "offsets": {"0": 1}, "clock": {"watermark_ms": 7}},
    }
    log.mkdir(exist_ok=True)
    unfinished = log / "unfinished"
    unfinished.write_text(json.dumps({"commitInfo": {"userMetadata": json.dumps(note)}}))
    unfinished.rename(log / f"{0:020d}.json")


def test_what_happens_meanwhile_does_not_count(tmp_path: Path) -> None:
    driver = DemoDriver(Stack(StackHome(tmp_path)), "s", [LakeEye(tmp_path / "log")])
    back = driver.watch_for_successor(30)
    commit(tmp_path / "log", 1)
    committed_at = time.monotonic()
    seen = back.result(10)
    assert seen <= time.monotonic()
    time.sleep(1)  # something else that is waited for
    assert back.result() == seen < committed_at + 1
    driver.wait_until_it_has_a_watermark(1)


def test_one_that_never_comes_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    driver = DemoDriver(Stack(StackHome(tmp_path)), "s", [LakeEye(tmp_path / "log")])
    with pytest.raises(DemoStuck, match="a new generation's first batch"):
        driver.watch_for_successor(0).result(10)
