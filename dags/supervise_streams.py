"""
### Supervise streams

Keeps every stream as it should be: brings back a driver that died, stops one that should not run, restarts one that is
stuck, and says what it cannot mend.

**Use when** never by hand: it runs every minute by itself, and looks every two seconds within its minute.

**Don't use when** a stream should be started, stopped or recovered: the runbooks do that, and act at once.

**What it changes** It starts drivers, asks them to stop, ends those that do not, and sets a stream to *stopped* with an
incident when a restart cannot mend it. It never touches data, tables or checkpoints.

**Steps** Observe (reads only), decide, act under the stream's lock; then again. The log ends with a table of all streams
and one line that says whether all is well.

**If it fails half-way** the next run, a minute later, goes on from what it finds. Clearing it, marking it failed or marking
it successful harms nothing: drivers are no children of its tasks.

**Undo** Pausing this DAG leaves every driver running, and nobody to bring it back: `make status` says so after three minutes.
"""

from datetime import timedelta

from airflow.sdk import DAG, task

with DAG(
    dag_id="supervise_streams",
    schedule="* * * * *",
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(seconds=90),  # a run whose worker was killed must not keep the next one from starting
    default_args={"owner": "tidemark", "retries": 0},
    tags=["supervision"],
    doc_md=__doc__,
):

    @task(task_id="watch")
    def watch(run_id: str | None = None) -> str:
        from include.airflow_parts.supervision_tasks import watch

        return watch(run_id or "")

    watch()
