"""Which Java is used, and what is said when it is not the right one."""

from pathlib import Path

import pytest

from include.local_stack.java import JavaMissing, WrongJava, find_java
from tests.jdks import a_jdk


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_jdk(tmp_path / "chosen", "17")))
    monkeypatch.setenv("PATH", str(a_jdk(tmp_path / "on path", "17") / "bin"))
    assert find_java() == tmp_path / "chosen" / "bin" / "java"


@pytest.mark.parametrize(("version", "major"), [("1.8", 8), ("11", 11), ("21", 21), ("25", 25)])
def test_another_java_is_refused_with_its_version_and_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, major: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_jdk(tmp_path, version)))
    with pytest.raises(WrongJava, match=f"is Java {major}, but Java 17 is needed") as refused:
        find_java()
    assert "JAVA_HOME" in refused.value.next_step


def test_no_java_at_all_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("include.local_stack.java.INSTALLED_JAVAS", tmp_path)
    with pytest.raises(JavaMissing, match="openjdk-17-jre-headless"):
        find_java()


def test_a_java_17_that_is_installed_but_not_chosen_is_pointed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_jdk(tmp_path / "jvm" / "java-17-openjdk", "17")
    monkeypatch.setattr("include.local_stack.java.INSTALLED_JAVAS", tmp_path / "jvm")
    monkeypatch.setenv("JAVA_HOME", str(a_jdk(tmp_path / "old", "11")))
    with pytest.raises(WrongJava, match=f"export JAVA_HOME={tmp_path}/jvm/java-17-openjdk"):
        find_java()


def test_a_java_home_without_a_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="there is no bin/java in it"):
        find_java()


def test_a_shim_of_a_version_manager_is_seen_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = a_jdk(tmp_path / "versions" / "17", "17")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{a_jdk(tmp_path / 'shims', '17', home=real)}/bin:/bin")
    assert find_java() == real / "bin" / "java"


def test_a_java_that_cannot_be_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (a_jdk(tmp_path, "17") / "bin" / "java").chmod(0o644)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(WrongJava, match="unknown version"):
        find_java()
