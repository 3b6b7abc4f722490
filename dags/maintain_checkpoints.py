"""
### Maintain checkpoints

Takes a backup of the newest checkpoint of every stateful stream, beside its running driver; restores the newest backup to a
scratch folder and tells from which point a stream could really go on; lets old backups go. Where they lie and how long they are
kept stands in the environment file, under `backups`.

**Use when** you want a fresh backup now, such as before work on the disk of the checkpoints, if `backups.place` is elsewhere.
It runs every hour by itself.

**Don't use when** a stream has lost its checkpoint: no backup is needed for that, its next start rebuilds the state from Kafka.
`recover_stream` restores a backup where Kafka no longer holds enough.

**What it changes** It writes backups, and removes those beyond `keep` that are older than `keep_for`; never the newest. Only
folders that it made itself. Never a checkpoint, a tidemark or a sink.

**Steps** One task; stream after stream: look the newest folder through and copy it up to its newest whole batch, unless it has
not moved since the last backup; rehearse; expire. A line each says what was done.

**If it fails half-way** a backup without its READY file is none, and nobody takes it for one. The other steps and streams are
done before it fails with the names of those that could not be. Clear the task, or wait for the next hour.

**Undo** A backup may be deleted by hand while Kafka reaches back far enough to make the state again. One that has expired is
gone.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

from include.contract.catalog import read_catalog

stateful = sorted(name for name, stream in read_catalog().streams.items() if stream.spec.is_stateful)

with DAG(
    dag_id="maintain_checkpoints",
    schedule="7 * * * *",
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=50),  # a run whose worker was killed must not keep the next hour's from starting
    default_args={"owner": "tidemark", "retries": 0},
    tags=["maintenance"],
    doc_md=__doc__,
    params={
        "stream": Param("all", type="string", enum=["all", *stateful], title="Stream", description="Whose checkpoint"),
    },
):

    @task
    def maintain(**context: Any) -> str:
        from include.airflow_parts.checkpoint_tasks import maintain

        return maintain(context)

    maintain()
