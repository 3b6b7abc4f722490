"""Are the books true? Compares what was sent with what stands in the tables. Shares no code with the product: it knows the
acknowledged sends, and reads Parquet and the log by deltalake.

python tests/checker.py SENT.json TABLE QUARANTINE: prints each problem on a line, and ends with 1 if there is one.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

Place = tuple[int, int]  # partition, offset


def problems(
    sent: dict[Place, dict[str, str]],
    table: Path,
    quarantine: Path,
    lost: frozenset[Place] = frozenset(),
    epoch: int | None = None,
) -> list[str]:
    """`sent`: per place the fate that the sender meant (good, filtered or bad) and the id. `lost` are known to be lost.
    With an epoch, only what the tables have of it is looked at."""
    sent = {place: record for place, record in sent.items() if place not in lost}
    rows = _rows(table, "event_id", epoch)
    kept = _rows(quarantine, "_spec_hash", epoch)
    return [
        *_compare("delivered", rows, {place: record["id"] for place, record in sent.items() if record["fate"] == "good"}),
        *_compare_quarantine(kept, {place for place, record in sent.items() if record["fate"] == "bad"}),
        *_check_ledger(_ledger(table, epoch), sent, rows, lost),
    ]


def _rows(table: Path, column: str, epoch: int | None) -> list[tuple[Place, str]]:
    if not _is_table(table):
        return []
    read = DeltaTable(table).to_pyarrow_table(columns=["_topic_epoch", "_partition", "_offset", column]).to_pylist()
    return [((row["_partition"], row["_offset"]), row[column]) for row in read if epoch in (None, row["_topic_epoch"])]


def _is_table(place: Path) -> bool:
    return any((place / "_delta_log").glob("*.json"))


def _compare(what: str, rows: list[tuple[Place, str]], expected: dict[Place, str]) -> list[str]:
    count = Counter(place for place, _ in rows)
    missing = sorted(set(expected) - set(count))
    twice = sorted(place for place, times in count.items() if times > 1)
    strange = sorted(set(count) - set(expected))
    other = sorted(place for place, value in rows if place in expected and expected[place] != value)
    found = {"lost": missing, f"{what} twice": twice, f"{what} but not expected": strange, "with another id": other}
    return [f"{len(places)} {title}, first {places[0]}" for title, places in found.items() if places]


def _compare_quarantine(kept: list[tuple[Place, str]], bad: set[Place]) -> list[str]:
    twice = [key for key, times in Counter(kept).items() if times > 1]
    missing = sorted(bad - {place for place, _ in kept})
    strange = sorted({place for place, _ in kept} - bad)
    found = {"quarantined twice": sorted(twice), "bad and nowhere": missing, "quarantined but not bad": strange}
    return [f"{len(places)} {title}, first {places[0]}" for title, places in found.items() if places]


def _ledger(table: Path, epoch: int | None) -> list[dict[str, Any]]:
    """Lines of batches, oldest first."""
    if not _is_table(table):
        return []
    notes = [json.loads(commit.get("userMetadata") or "{}") for commit in reversed(DeltaTable(table).history())]
    batches = [note for note in notes if note.get("kind") == "batch" and epoch in (None, note["tidemark"]["epoch"])]
    return [line for note in batches for line in note["ledger"]]


def _check_ledger(
    lines: list[dict[str, Any]], sent: dict[Place, dict[str, str]], rows: list[tuple[Place, str]], lost: frozenset[Place]
) -> list[str]:
    """It may jump over what is known to be lost, and over nothing else."""
    found = []
    end: dict[int, int] = {}
    delivered = Counter(place for place, _ in rows)
    for line in lines:
        partition, start, stop = line["partition"], line["start"], line["end"]
        between = range(*sorted((end.get(partition, start), start)))
        if not lost.issuperset((partition, offset) for offset in between):
            found.append(f"the ledger jumps from {end[partition]} to {start} in partition {partition}")
        end[partition] = stop
        fates = Counter(sent[place]["fate"] for place in sent if place[0] == partition and start <= place[1] < stop)
        here = sum(times for place, times in delivered.items() if place[0] == partition and start <= place[1] < stop)
        truth = {"read": sum(fates.values()), "delivered": here, "quarantined": fates["bad"], "filtered": fates["filtered"]}
        booked = {name: line.get(name, 0) for name in truth}
        if booked != truth:
            found.append(f"the ledger books {booked} for [{start}, {stop}) of partition {partition}, but it was {truth}")
    short = [place for place in sorted(sent) if place[1] >= end.get(place[0], 0)]
    if short:
        found.append(f"{len(short)} in no ledger line, first {short[0]}")
    return found


def read_sent(file: Path) -> dict[Place, dict[str, str]]:
    return {(record["partition"], record["offset"]): record for record in json.loads(file.read_text())}


if __name__ == "__main__":
    told = problems(read_sent(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3]))
    print("\n".join(told) or "the books are true")
    sys.exit(1 if told else 0)
