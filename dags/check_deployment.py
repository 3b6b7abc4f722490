"""
### Check the deployment

Sends records from Kafka through Spark and Delta and back to Kafka, and counts them.

**Use when** the stack was installed or upgraded, or to rule out the ground when a stream fails.

**Don't use when** looking for lost records of a stream: this says nothing about streams.

**What it changes** It writes a folder of its own to `check_deployment/` in the lake, and records to the topics
`tidemark.check.there` and `tidemark.check.back`, which forget them after an hour.

**Steps** Send, stream into Delta, send back, count. It succeeds only if every record came back exactly once.

**If it fails half-way** nothing needs to be mended: clear the task or trigger a new run, each try has records and a folder
of its own. The task's log ends with what was counted.

**Undo** Not needed.
"""

from airflow.sdk import DAG, Param

from include.airflow_parts.submit_job import SubmitJob

with DAG(
    dag_id="check_deployment",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "tidemark", "retries": 0},
    tags=["check"],
    doc_md=__doc__,
    params={"records": Param(10_000, type="integer", minimum=1, maximum=5_000_000, description="How many records to send")},
):
    SubmitJob(
        task_id="send_and_count",
        job="check_deployment",
        application_args=["--records", "{{ params.records }}", "--run", "{{ run_id }}-{{ ti.try_number }}"],
    )
