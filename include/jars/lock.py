"""Reads config/jars.lock: one line per jar with its set, Maven coordinates and SHA-256."""

from dataclasses import dataclass
from pathlib import Path

JAR_LOCK = Path(__file__).resolve().parents[2] / "config" / "jars.lock"
JAR_SETS = ("spark", "kafka")


@dataclass(frozen=True)
class Jar:
    jar_set: str
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """With the group, so that two groups may publish an artifact of one name."""
        return f"{self.group}__{self.artifact}-{self.version}.jar"


def read_jar_lock(lock: Path = JAR_LOCK) -> list[Jar]:
    lines = (line.split("#")[0].split() for line in lock.read_text().splitlines())
    return [_parse(line, lock) for line in lines if line]


def _parse(columns: list[str], lock: Path) -> Jar:
    jar_set, coordinates, *sha256 = columns
    group, artifact, version = coordinates.split(":")
    if jar_set not in JAR_SETS:
        raise ValueError(f"{lock}: {coordinates} is in set {jar_set!r}, which is none of {', '.join(JAR_SETS)}")
    return Jar(jar_set, group, artifact, version, sha256[0] if sha256 else "")
