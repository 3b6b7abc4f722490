"""The jar cache: outside the work tree, checked on use, mended by itself, filled once for all clones."""

import os
import shutil
from pathlib import Path

import pytest

from include.jars.cache import JarMissing, cache_folder, class_path, fill_cache, sha256_of
from include.jars.lock import read_jar_lock
from include.local_stack.java import find_java
from tests.running import PROJECT, run_module

NOWHERE = "http://127.0.0.1:9/"  # the discard port: refuses at once


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A whole cache of this test's own; unharmed jars are links to the real ones."""
    own = tmp_path / "cache" / "tidemark" / "jars"
    own.mkdir(parents=True)
    for jar in read_jar_lock():
        os.link(cache_folder() / jar.file_name, own / jar.file_name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("TIDEMARK_JARS", raising=False)
    return own


def damage(jar: Path) -> None:
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.unlink()  # not in place: the real cache has the same file
    jar.write_bytes(content)


def test_the_cache_lies_outside_the_work_tree() -> None:
    assert not cache_folder().is_relative_to(PROJECT)


def test_a_second_checkout_fetches_nothing(own_cache: Path) -> None:
    done = run_module("include.local_stack.fetch_jars", TIDEMARK_MAVEN_MIRROR=NOWHERE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("jar_set", ["spark", "kafka"])
def test_a_jar_with_one_flipped_bit_never_reaches_a_class_path(own_cache: Path, jar_set: str) -> None:
    jar = next(jar for jar in read_jar_lock() if jar.jar_set == jar_set)
    damage(own_cache / jar.file_name)
    with pytest.raises(JarMissing, match=jar.coordinates):
        class_path(jar_set)


def test_a_damaged_jar_and_a_missing_one_are_fetched_again(own_cache: Path) -> None:
    damaged, missing = [jar for jar in read_jar_lock() if jar.artifact in ("delta-storage", "commons-pool2")]
    damage(own_cache / damaged.file_name)
    (own_cache / missing.file_name).unlink()

    assert set(fill_cache(find_java())) == {damaged, missing}

    assert sha256_of(own_cache / damaged.file_name) == damaged.sha256
    assert sha256_of(own_cache / missing.file_name) == missing.sha256
    assert (own_cache / damaged.file_name).with_suffix(".damaged").exists()
    assert [entry.name for entry in own_cache.parent.iterdir()] == ["jars"]


def test_a_download_that_fails_says_how_to_retry_and_how_to_use_a_mirror(own_cache: Path) -> None:
    shutil.rmtree(own_cache)
    refused = run_module("include.local_stack.fetch_jars", TIDEMARK_MAVEN_MIRROR=NOWHERE)
    assert refused.returncode == 1
    assert "DownloadFailed" in refused.stderr
    assert f"{len(read_jar_lock())} of {len(read_jar_lock())} jars could not be fetched" in refused.stderr
    assert "Run the same command again" in refused.stderr
    assert f"TIDEMARK_MAVEN_MIRROR to its address (now: {NOWHERE})" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_mirror_that_serves_other_bytes_is_refused(own_cache: Path, tmp_path: Path) -> None:
    jar = next(jar for jar in read_jar_lock() if jar.artifact == "delta-storage")
    (own_cache / jar.file_name).unlink()
    served = tmp_path / "mirror" / jar.group.replace(".", "/") / jar.artifact / jar.version
    served.mkdir(parents=True)
    (served / f"{jar.artifact}-{jar.version}.jar").write_bytes(b"not the jar")

    refused = run_module("include.local_stack.fetch_jars", TIDEMARK_MAVEN_MIRROR=(tmp_path / "mirror").as_uri())

    assert refused.returncode == 1
    assert f"WrongJar: {jar.coordinates}" in refused.stderr
    assert not (own_cache / jar.file_name).exists()
