"""What maintain_checkpoints does in a deployment: the stateful streams of the shipped files, each apart from the others."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from include.airflow_parts.checkpoint_tasks import CheckpointsNotMaintained, maintain
from include.airflow_parts.conf_keys import UnknownParameter
from include.checkpoints import backup as backing
from include.checkpoints.backup import list_backups
from tests.unit.checkpoints.stateful_folder import TOPIC, stateful_folder

STREAM = "user_event_counts"  # dedupe alone: one operator, on the topic of the folders made by hand
assert TOPIC == "payments"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    monkeypatch.delenv("TIDEMARK_CONFIG", raising=False)
    monkeypatch.setattr(backing, "PAUSE_SECONDS", 0)
    return tmp_path


def asked(stream: str, **conf: object) -> dict[str, Any]:
    """As Airflow hands it over."""
    dag = SimpleNamespace(dag_id="maintain_checkpoints", params={"stream": stream})
    return {"dag": dag, "dag_run": SimpleNamespace(conf={"stream": stream, **conf}), "params": {"stream": stream}}


def test_the_newest_folder_of_a_stateful_stream_is_backed_up(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stateful_folder(home / "checkpoints" / STREAM / "c000001", 3)
    stateful_folder(home / "checkpoints" / STREAM / "c000002", 6)
    said = maintain(asked("all"))
    assert f"{STREAM}: c000002 was backed up through batch 5" in said
    assert "payment_totals: there is no checkpoint to back up yet." in said
    assert "orders_raw" not in said
    assert said in capsys.readouterr().out
    (made,) = list_backups(home / "backups" / STREAM)
    assert made.tidemark["stream"] == STREAM
    assert made.tidemark["generation"] == 2


def test_one_that_is_damaged_does_not_keep_the_others(home: Path) -> None:
    stateful_folder(home / "checkpoints" / STREAM / "c000001", 3)
    (stateful_folder(home / "checkpoints" / "payment_totals" / "c000001", 3) / "metadata").unlink()
    with pytest.raises(CheckpointsNotMaintained, match=r"1 steps failed: payment_totals: NothingToBackUp: .*metadata is missing"):
        maintain(asked("all"))
    assert len(list_backups(home / "backups" / STREAM)) == 1


def test_one_stream_alone_and_a_misspelt_key(home: Path) -> None:
    assert "payment_totals" not in maintain(asked(STREAM))
    with pytest.raises(UnknownParameter):
        maintain(asked(STREAM, steam=STREAM))
