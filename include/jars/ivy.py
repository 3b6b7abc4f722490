"""Fetches jars with the Ivy that lies inside PySpark: no downloader of our own, no transitive resolution.

Ivy is told not to read POM files (`usepoms`), because the lock is complete: 56 jars take 6 s instead of 51 s.
"""

import os
import re
import subprocess
import sysconfig
from pathlib import Path
from xml.sax.saxutils import quoteattr

from include.contract.errors import TidemarkError
from include.jars.lock import Jar

MIRROR_VARIABLE = "TIDEMARK_MAVEN_MIRROR"


class DownloadFailed(TidemarkError):
    """A jar could not be fetched."""


def fetch(jars: list[Jar], into: Path, java: Path) -> None:
    """Puts each jar into the folder `into` under its `file_name`; the caller verifies them."""
    (into / "ivy.xml").write_text(_module(jars))
    (into / "ivysettings.xml").write_text(_settings())
    done = subprocess.run(_command(into, java), capture_output=True, text=True, check=False)
    missing = [jar.coordinates for jar in jars if not (into / jar.file_name).is_file()]
    if done.returncode or missing:
        raise DownloadFailed(
            f"{len(missing)} of {len(jars)} jars could not be fetched ({', '.join(missing[:3])}"
            f"{' ...' if len(missing) > 3 else ''}):\n    {_last_lines(done)}\n",
            state="The jars that were in the cache before are untouched.",
            next_step=f"Run the same command again; behind a mirror of Maven Central set {MIRROR_VARIABLE} to its address "
            f"(now: {_without_login(os.environ.get(MIRROR_VARIABLE)) or 'not set'}).",
        )


def _without_login(address: str | None) -> str | None:
    return re.sub(r"//[^/@]*@", "//", address) if address else None


def _command(into: Path, java: Path) -> list[str]:
    ivy = sorted((Path(sysconfig.get_path("purelib")) / "pyspark" / "jars").glob("ivy-*.jar"))[-1]
    pattern = f"{into}/[organisation]__[artifact]-[revision].[ext]"
    return [
        *(str(java), "-jar", str(ivy), "-warn"),
        *("-settings", str(into / "ivysettings.xml"), "-ivy", str(into / "ivy.xml")),
        *("-cache", str(into / "ivy-cache"), "-retrieve", pattern),
    ]


def _module(jars: list[Jar]) -> str:
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        ' conf="locked->default" transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="tidemark" module="jars"/>'
        f'<configurations><conf name="locked"/></configurations><dependencies>{dependencies}</dependencies>'
        '<conflicts><manager name="all"/></conflicts></ivy-module>'  # the broker and Spark each have their own kafka-clients
    )


def _settings() -> str:
    mirror = os.environ.get(MIRROR_VARIABLE)
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true" usepoms="false" checksums=""{root}/></resolvers></ivysettings>'
    )


def _last_lines(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    return "\n    ".join([line for line in lines if line and not line.startswith("..")][-6:])
