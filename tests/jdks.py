"""Programs that answer as a Java of some version would."""

from pathlib import Path


def a_jdk(folder: Path, version: str, home: Path | None = None) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\nprintf '    java.home = %s\\n    java.specification.version = %s\\n' '{home or folder}' '{version}' >&2\n"
    )
    java.chmod(0o755)
    return folder
