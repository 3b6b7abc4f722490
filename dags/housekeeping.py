"""
### Housekeeping

Removes what has served its time: old runs and logs of Airflow, logs and checkpoints of drivers that are over, and old rows of
the control database. How long each is kept stands in the environment file, under `housekeeping`.

**Use when** the disk fills up and the next night is too far: it runs every night by itself. With *dry run* on it only counts.

**Don't use when** a stream misbehaves: what is removed here plays no part in delivering records.

**What it changes** It removes runs with their task instances from Airflow's database, log folders, checkpoint folders, and
progress, launches, closed incidents and journal entries from the control database, each only when older than its retention.
Never data, tables, tidemarks or quarantine; never the newest generation of a stream, nor anything of a driver that may live.

**Steps** One task per kind of thing, independent of each other. Each prints how much was removed, and what was kept and why.

**If it fails half-way** what was removed is gone, the rest is whole; the next run goes on. Clear the task or wait for the night.

**Undo** None. A retention that was too short can only be made longer for the future.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, task

with DAG(
    dag_id="housekeeping",
    schedule="17 3 * * *",
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),  # a run whose worker was killed must not keep the next night's from starting
    default_args={"owner": "tidemark", "retries": 0},
    tags=["housekeeping"],
    doc_md=__doc__,
    params={"dry_run": Param(False, type="boolean", title="Dry run", description="Only count what would be removed")},
):

    @task
    def sweep(kind: str, **context: Any) -> str:
        from include.airflow_parts.housekeeping_tasks import sweep

        return sweep(kind, context)

    for kind in ("airflow_runs", "airflow_logs", "driver_logs", "checkpoints", "control_rows"):
        sweep.override(task_id=kind)(kind)
