"""Every name that is derived from a stream's name, in one place. The stream's name is its file's stem."""

import re

COORDINATES = ("_topic", "_topic_epoch", "_partition", "_offset")
OWN_COLUMNS = (*COORDINATES, "_kafka_timestamp", "_generation", "_batch_id")
READABLE_COLUMNS = ("_topic", "_partition", "_offset", "_kafka_timestamp")  # the others change when a record is replayed
DELETED = "_deleted"  # in tables that hold the newest row of each key: the newest record of this key deletes it
QUARANTINE = "quarantine"  # beside the sinks' names and the lake's tables: a sink or a table of this name is refused


def transaction_app_id(stream: str, sink: str) -> str:
    """Delta's transaction application: one per stream and sink (P4)."""
    return f"{stream}/{sink}"


def transactional_id(stream: str, sink: str, slot: int | None) -> str:
    """Of a producer into Kafka: of one slot, or of whoever writes the log of commits (P5)."""
    return f"{transaction_app_id(stream, sink)}/{'fence' if slot is None else slot}"


def tidemarks_topic(topic: str) -> str:
    """Beside an output topic: its log of commits and its marks."""
    return f"{topic}.tidemarks"


def rejects_topic(topic: str) -> str:
    return f"{topic}.rejects"


def quarantine_table(stream: str) -> str:
    """Below the lake's root."""
    return f"{QUARANTINE}/{stream}"


def checkpoint_folder(stream: str, generation: int) -> str:
    """Below the root of checkpoints: named for the generation that began it, never reused."""
    return f"{stream}/c{generation:06d}"


def checkpoint_generation(folder: str) -> int | None:
    """Of a folder's own name; also of one that a killed start left unfinished. None: the name is not ours."""
    match = re.fullmatch(r"c(\d{6,})|\.c(\d{6,})\.unfinished", folder)
    return int(match[1] or match[2]) if match else None


DRIVER_LOGS = ("logs", "streams")  # below the deployment's folder
LAUNCH_VARIABLE = "TIDEMARK_LAUNCH"  # in the environment of every process of a driver that the launcher started
LOG_VARIABLE = "TIDEMARK_LOG"  # where its output goes until its generation is known


def application_name(stream: str, launch: str) -> str:
    """Of a driver, in Spark's own pages and on its command line."""
    return f"tidemark {stream} {launch}"


def generation_log(stream: str, generation: int) -> str:
    """Below the folder of drivers' logs."""
    return f"{stream}/g{generation:06d}.log"


def launch_log(stream: str, launch: str) -> str:
    """Before the generation is known, and for a launch that never took one."""
    return f"{stream}/launch-{launch}.log"


def log_generation(file: str) -> int | None:
    """Of a log's own name, also of what was moved aside when the log grew too long."""
    match = re.fullmatch(r"g(\d{6,})\.log(\.1)?", file)
    return int(match[1]) if match else None


def log_launch(file: str) -> str | None:
    match = re.fullmatch(r"launch-([0-9a-f-]+)\.log", file)
    return match[1] if match else None
