"""The environment file: every shipped one loads, a wrong one is refused with its place."""

from datetime import timedelta
from pathlib import Path

import pytest

from include.contract import environment
from include.contract.environment import EnvironmentInvalid, load_environment


@pytest.mark.parametrize("name", [file.stem for file in environment.ENVIRONMENTS.glob("*.yaml")])
def test_every_shipped_environment_loads(name: str) -> None:
    assert load_environment(name).spark.connection == "spark_main"


def test_an_unknown_environment_names_those_there_are() -> None:
    with pytest.raises(EnvironmentInvalid, match=r"no production\.yaml .*there are: local, small_host"):
        load_environment("production")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("lake: lake", "lakes: lake"), "lakes"),
        (("shuffle_partitions: 2", "shuffle_partitions: two"), "spark.shuffle_partitions"),
        (("connection: kafka_main", "connection: kafka_main\n  password: x"), "kafka.password"),
        (("spark:", "spark: ["), "while parsing"),
        (("journal: 365 days", "journal: 365"), "housekeeping.keep.journal"),
        (("checkpoints: 3 days", "checkpoints: 3 hours"), "housekeeping.keep.checkpoints"),
        (("    progress: 14 days", "    progres: 14 days"), "housekeeping.keep.progress"),
        (("keep_removed_files: 7 days", "keep_removed_files: 6 days"), "maintenance.keep_removed_files"),
        (("file_size: 128 MB", "file_size: 128"), "maintenance.file_size"),
    ],
    ids=[
        *("unknown key", "wrong type", "a password", "not YAML"),
        *("retention without unit", "retention of less than a day", "retention that is missing"),
        *("removed files kept for less than a week", "size without unit"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: tuple[str, str], complaint: str
) -> None:
    text = (environment.ENVIRONMENTS / "local.yaml").read_text()
    assert change[0] in text
    (tmp_path / "wrong.yaml").write_text(text.replace(*change, 1))
    monkeypatch.setattr(environment, "ENVIRONMENTS", tmp_path)
    with pytest.raises(EnvironmentInvalid, match=complaint):
        load_environment("wrong")


def test_a_lake_with_a_scheme_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_HOME", "/somewhere")
    local = load_environment("local")
    assert local.lake_path("orders") == "/somewhere/lake/orders"
    assert local.model_copy(update={"lake": "s3a://bucket/lake"}).lake_path("orders") == "s3a://bucket/lake/orders"


def test_a_retention_is_written_as_people_write_it() -> None:
    assert load_environment("local").housekeeping.keep.checkpoints == timedelta(days=3)
