"""The jar lock is complete and well formed."""

from collections import Counter
from pathlib import Path

import pytest

from include.jars.lock import read_jar_lock


def test_every_jar_has_a_sha256_and_stands_once() -> None:
    jars = read_jar_lock()
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert [name for name, times in Counter(jar.file_name for jar in jars).items() if times > 1] == []
    assert {jar.jar_set for jar in jars} == {"spark", "kafka"}


def test_delta_is_the_build_for_this_spark() -> None:
    from importlib.metadata import version

    spark = ".".join(version("pyspark").split(".")[:2])
    delta = {f"{jar.artifact}:{jar.version}" for jar in read_jar_lock() if jar.artifact.startswith("delta-spark")}
    assert delta == {f"delta-spark_{spark}_2.13:{version('delta-spark')}"}


def test_an_unknown_set_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text("sparc org.example:thing:1.0 abc\n")
    with pytest.raises(ValueError, match=r"org\.example:thing:1\.0 is in set 'sparc', which is none of spark, kafka"):
        read_jar_lock(lock)
