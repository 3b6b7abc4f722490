"""`python -m include.contract`: the commands behind make streams, make check and make editor-schemas."""

import argparse
import json
import sys
from pathlib import Path

from include.contract.catalog import config_folder, load_streams
from include.contract.environment import load_environment
from include.contract.errors import TidemarkError
from include.contract.fingerprint import spec_hash
from include.contract.guarantee import guarantees
from include.contract.stream_spec import RecordSchema, Section, StreamSpec

EDITOR_SCHEMAS: dict[str, type[Section]] = {"stream.schema.json": StreamSpec, "record.schema.json": RecordSchema}


def main() -> int:
    commands = {"streams": show_streams, "check": check, "editor-schemas": write_editor_schemas}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=commands)
    try:
        commands[parser.parse_args().command]()
    except TidemarkError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def show_streams() -> None:
    """What exists, and what each sink of it promises, with the reasons."""
    environment = load_environment()
    for stream in load_streams().values():
        state = "" if stream.spec.enabled else "  (not enabled)"
        print(f"{stream.name}: {stream.spec.description}{state}")
        print(f"  topic {stream.spec.source.topic}, owner {stream.spec.owner}, spec {spec_hash(stream)}")
        for guarantee in guarantees(stream, environment):
            print(f"  sink {guarantee.sink}: {guarantee.promise}, because")
            print("".join(f"    - {reason}\n" for reason in guarantee.reasons), end="")


def check() -> None:
    streams = load_streams()
    print(f"Every stream file and schema is valid: {', '.join(streams) or 'there are none yet'}.")


def write_editor_schemas(folder: Path | None = None) -> None:
    folder = folder or config_folder()
    for name, model in EDITOR_SCHEMAS.items():
        (folder / name).write_text(json.dumps(model.model_json_schema(), indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
