"""What the task of `maintain_checkpoints` does. Imported when it runs, never when the DAG file is parsed."""

from typing import Any

from include.airflow_parts.conf_keys import refuse_unknown_keys
from include.checkpoints.care import CheckpointCare
from include.contract.catalog import Stream, read_catalog
from include.contract.environment import Environment, load_environment
from include.contract.errors import TidemarkError
from include.contract.fingerprint import state_hash


class CheckpointsNotMaintained(TidemarkError):
    """Some steps failed; all others were done."""


def maintain(context: Any) -> str:
    """Every stateful stream, or the one that was asked for. Fails after all of them were tried."""
    refuse_unknown_keys(context)
    environment = load_environment()
    asked = context["params"]["stream"]
    streams = [stream for stream in read_catalog().streams.values() if stream.spec.is_stateful and asked in ("all", stream.name)]
    cared = [_care(stream, environment).run() for stream in streams]
    lines = [line for each in cared for line in each.lines] or ["There is no stateful stream."]
    failures = [failure for each in cared for failure in each.failures]
    print("\n".join([*lines, *failures]), flush=True)
    if failures:
        raise CheckpointsNotMaintained(
            f"{len(failures)} steps failed: {' '.join(failures)}",
            state="The streams run on; their checkpoints and older backups are as they were.",
            next_step="Mend the cause, such as a full disk, and clear this task.",
        )
    return "\n".join(lines)


def _care(stream: Stream, environment: Environment) -> CheckpointCare:
    spec = stream.spec
    return CheckpointCare(
        stream.name,
        spec.source.topic,
        spec.stateful_operators,
        state_hash(stream),
        environment.spark.shuffle_partitions,
        environment.checkpoint_path(stream.name),
        environment.backup_path(stream.name),
        environment.backups.keep,
        environment.backups.keep_for,
    )
