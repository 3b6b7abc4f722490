"""Every name that is derived from a stream's name, in one place. The stream's name is its file's stem."""

OWN_COLUMNS = ("_topic", "_topic_epoch", "_partition", "_offset", "_kafka_timestamp", "_generation", "_batch_id")
READABLE_COLUMNS = ("_topic", "_partition", "_offset", "_kafka_timestamp")  # the others change when a record is replayed
QUARANTINE_FOLDER = "quarantine"  # in the lake; a table of this name is refused


def transaction_app_id(stream: str, sink: str) -> str:
    """Delta's transaction application: one per stream and sink (P4)."""
    return f"{stream}/{sink}"


def quarantine_table(stream: str) -> str:
    """Below the lake's root."""
    return f"{QUARANTINE_FOLDER}/{stream}"


def checkpoint_folder(stream: str, generation: int) -> str:
    """Below the root of checkpoints: named for the generation that began it, never reused."""
    return f"{stream}/c{generation:06d}"
