"""
### Maintain tables

Keeps every Delta table of every stream small and quick, beside live streams: many small files become few, sorted by `cluster_by`
or the key; rows that a merge marked as deleted leave their files; deletes older than `purge_deleted_after` leave the table; files
that nobody needs any more are removed. Sizes and retention stand in the environment file, under `maintenance`.

**Use when** a table has grown slow and the next night is too far: it runs every night by itself. With *dry run* on it only tells
what it would do.

**Don't use when** a stream has stopped because somebody changed its table: such a table is left alone until that is settled.
Don't run OPTIMIZE instead: it works, but on a plain file system its commit and a driver's may replace each other.

**What it changes** Which files hold the rows, never a row; but for deletes past their horizon, which go. Versions older than the
retention can then no longer be read or restored. Never a tidemark: it repeats the one of a quiet table, so that Delta's own
clean-up of the log does not take it away.

**Steps** One task, one Spark job; table after table: repeat the tidemark, purge, compact, vacuum. A line per table says what it
had before and after. It gives way to a running stream, or makes it wait for a few seconds.

**If it fails half-way** every commit made is whole, and what was not committed nobody sees. Other tables are done before it fails
with the names of those that could not be. Clear the task, or wait for the night.

**Undo** RESTORE to a version before it brings the old files back within the retention, and stops the stream. There is no need to.
"""

from datetime import timedelta

from airflow.sdk import DAG, Param

from include.airflow_parts.submit_job import SubmitJob
from include.contract.catalog import read_catalog

with DAG(
    dag_id="maintain_tables",
    schedule="47 1 * * *",
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=6),  # a run whose worker was killed must not keep the next night's from starting
    default_args={"owner": "tidemark", "retries": 0},
    tags=["maintenance"],
    doc_md=__doc__,
    params={
        "stream": Param(
            "all", type="string", enum=["all", *sorted(read_catalog().streams)], title="Stream", description="Whose tables"
        ),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Only tell what would be done"),
    },
):
    SubmitJob(
        task_id="maintain",
        job="maintain_tables",
        application_args=["{{ params.stream }}", "{{ 'dry_run' if params.dry_run else 'maintain' }}"],
    )
