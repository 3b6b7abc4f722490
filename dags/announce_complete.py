"""
### Announce how far a sink is complete

Runs whenever a window of any stream has passed, and says up to which offsets and which time its sink is proved to be complete.

**Use when** never by hand. It is an example of what runs on proved data: schedule your own DAG on the same asset.

**Don't use when** you need every batch at once: a sink is readable before it is proved.

**What it changes** Nothing.

**Steps** `announce` prints the event: stream, sink, offsets per partition, event time, the tier that passed, and what could not
be judged.

**If it fails half-way** clear the task.

**Undo** Not needed.
"""

from typing import Any

from airflow.sdk import DAG, AssetAny, task

from include.airflow_parts.complete_asset import all_complete_assets

with DAG(
    dag_id="announce_complete",
    schedule=AssetAny(*assets) if (assets := all_complete_assets()) else None,
    catchup=False,
    default_args={"owner": "tidemark", "retries": 0},
    tags=["reconciliation"],
    doc_md=__doc__,
):

    @task
    def announce(**context: Any) -> list[dict[str, Any]]:
        from include.airflow_parts.reconciliation_tasks import announce

        return announce(context)

    announce()
