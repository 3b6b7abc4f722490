"""What is wrong with one file of a checkpoint, as far as the files beside it tell. Changes nothing.

Hadoop writes `.N.crc` beside each file: a CRC-32 of every 512 bytes. Spark writes `N.crc` beside a state file, with its size.
Tests of ours run without the former: then a changed byte is found only by Spark, when it reads the file.
"""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path

MISSING = "is missing"
HADOOP_MAGIC = b"crc\0"
CHUNKS_AT_ONCE = 2048


@dataclass(frozen=True)
class Damage:
    """`file` is below the checkpoint folder. Both `what` and `repair` end a sentence: `offsets/7 is missing.`"""

    file: str
    what: str
    repair: str

    def __str__(self) -> str:
        return f"{self.file} {self.what}. {self.repair}"


def beside(file: Path) -> list[Path]:
    """The file itself and what Hadoop and Spark may have written about it."""
    sparks = file.with_name(f"{file.name}.crc")
    return [file, _hadoops(file), sparks, _hadoops(sparks)]


def what_is_wrong(file: Path) -> str | None:
    """In words that go on after the file's name; None: nothing that can be told."""
    try:
        size = file.stat().st_size
        if size == 0:
            return "is empty"
        return _by_spark(file, size) or _by_hadoop(file)
    except FileNotFoundError:
        return MISSING


def _by_spark(file: Path, size: int) -> str | None:
    checksum = file.with_name(f"{file.name}.crc")
    if not checksum.exists():
        return None
    try:
        written = int(json.loads(checksum.read_bytes())["mainFileSize"])
    except (ValueError, KeyError, TypeError):
        return "cannot be judged: the checksum file beside it is torn"
    return None if written == size else f"holds {size:,} bytes, but {written:,} were written"


def _by_hadoop(file: Path) -> str | None:
    checksum = _hadoops(file)
    if not checksum.exists():
        return None
    recorded = checksum.read_bytes()
    chunk = int.from_bytes(recorded[4:8], "big")
    if recorded[:4] != HADOOP_MAGIC or chunk == 0:
        return "cannot be read: the checksum that Hadoop keeps beside it is torn"
    return None if _crcs(file, chunk) == recorded[8:] else "is not as it was written: Hadoop's checksum differs"


def _crcs(file: Path, chunk: int) -> bytes:
    found = bytearray()
    with file.open("rb") as content:
        while block := content.read(chunk * CHUNKS_AT_ONCE):
            for start in range(0, len(block), chunk):
                found += zlib.crc32(block[start : start + chunk]).to_bytes(4, "big")
    return bytes(found)


def _hadoops(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")
