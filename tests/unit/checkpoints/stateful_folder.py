"""A stateful checkpoint folder made by hand, of the files that Spark would write: small, and quick to damage."""

import json
import zipfile
from pathlib import Path

from include.checkpoints.seed import make_checkpoint, planned_batch

TOPIC = "payments"
PARTITIONS = 2
METADATA = json.dumps({"batchWatermarkMs": 60_000, "batchTimestampMs": 1, "conf": {"spark.sql.shuffle.partitions": "2"}})


def stateful_folder(folder: Path, batches: int, snapshot: int = 3, more: dict[str, bytes] | None = None) -> Path:
    """Batches 0 to `batches` - 1, all committed; a snapshot of one version, and changelogs of all."""
    make_checkpoint(folder, TOPIC, {0: 0}, more or {})
    for number in range(batches):
        add_batch(folder, number)
    if snapshot <= batches:
        for partition in range(PARTITIONS):
            add_snapshot(folder / "state" / "0" / str(partition), snapshot)
    return folder


def add_batch(folder: Path, number: int) -> None:
    write(folder / "offsets" / str(number), planned_batch(TOPIC, {0: (number + 1) * 10}, METADATA))
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}
    operator = {"operatorInfo": {"operatorId": 0, "operatorName": "dedupe"}, "stateStoreInfo": [store]}
    write(folder / "state" / "0" / "_metadata" / "metadata", f"v1\n{json.dumps(operator)}".encode())
    write(folder / "state" / "0" / "0" / "_metadata" / "schema", b"v3 columns")
    for partition in range(PARTITIONS):
        changelog = folder / "state" / "0" / str(partition) / f"{number + 1}.changelog"
        write(changelog, b"changes " * (number + 1))
        write(changelog.with_name(f"{changelog.name}.crc"), json.dumps({"mainFileSize": changelog.stat().st_size}).encode())
    write(folder / "commits" / str(number), b'v1\n{"nextBatchWatermarkMs":60000}')


def add_snapshot(store: Path, version: int) -> None:
    name = f"00000{version}-{store.name}.sst"
    write(store / "SSTs" / name, b"sorted" * 50)
    files = [{"localFileName": f"00000{version}.sst", "dfsSstFileName": name, "sizeBytes": 300}]
    with zipfile.ZipFile(store / f"{version}.zip", "w") as packed:
        packed.writestr("metadata", f"v1\n{json.dumps({'sstFiles': files})}")


def write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}
