"""
### Reconcile a stream

Proves, for a window of offsets, that Kafka and a sink agree: every record delivered once, quarantined or filtered, and booked so.

**Use when** never by hand, for it runs on the schedule of the stream file; or to judge a window again after something was
mended: with *sink*, *from* and *to*.

**Don't use when** a stream should be brought back: the runbooks do that.

**What it changes** Nothing of the data. It keeps the window with its verdict, opens an incident if the books differ, writes a
page per window and day, and tells downstream how far a sink is complete.

**Steps** `choose_window`: from where the last window ended to the tidemark, in whole commits. `audit_ledger`: lines continuous,
equation true, Delta's row counts equal, nobody else's rows. `measure`: Kafka, made into rows anew, against table and quarantine,
one pass each. `judge`: Great Expectations, by a suite from the stream file; fails with the partitions and offsets that differ.
`publish`: an event of the sink's asset, if its window has passed.

**If it fails half-way** nothing has to be mended: clear the failed task. A window that failed stays failed until one that holds
it passes.

**Undo** Not needed.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, chain, task

from include.airflow_parts.complete_asset import complete_asset
from include.airflow_parts.judge_windows import JudgeWindows
from include.airflow_parts.submit_job import SubmitJob
from include.contract.catalog import Stream, read_catalog

OFFSETS = {"type": ["object", "null"], "additionalProperties": {"type": "integer", "minimum": 0}}


def reconcile(stream: Stream) -> None:
    @task.short_circuit(task_id="choose_window")
    def choose_window(**context: Any) -> bool:
        from include.airflow_parts.reconciliation_tasks import choose

        return choose(stream.name, context)

    @task(task_id="audit_ledger")
    def audit_ledger(**context: Any) -> str:
        from include.airflow_parts.reconciliation_tasks import audit

        return audit(stream.name, context)

    @task
    def publish(sink: str, **context: Any) -> str:
        from include.airflow_parts.reconciliation_tasks import publish

        return publish(stream.name, sink, context)

    measure = SubmitJob(
        task_id="measure",
        job="measure_window",
        connections=stream.spec.connections,
        application_args=[stream.name, "--run", "{{ run_id }}"],
    )
    published = [
        publish.override(task_id=f"publish_{sink}", outlets=[complete_asset(stream.name, sink)])(sink)
        for sink in sorted(stream.spec.sinks)
    ]
    chain(choose_window(), audit_ledger(), measure, JudgeWindows(task_id="judge", stream=stream.name), published)


for stream in read_catalog().streams.values():
    with DAG(
        dag_id=f"reconcile_{stream.name}",
        schedule=stream.spec.reconcile.every,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=2),  # a run whose worker was killed must not keep the next one from starting
        default_args={"owner": "tidemark", "retries": 0},
        tags=["reconciliation"],
        doc_md=__doc__,
        params={
            "sink": Param(
                None, type=["string", "null"], enum=[None, *sorted(stream.spec.sinks)], title="Sink", description="By hand only"
            ),
            "from": Param(
                None, **OFFSETS, title="From", description='By hand only: the first offset per partition, such as {"3": 8400}'
            ),
            "to": Param(
                None, **OFFSETS, title="To", description="By hand only: the offset after the last, of the same partitions"
            ),
        },
    ):
        reconcile(stream)
