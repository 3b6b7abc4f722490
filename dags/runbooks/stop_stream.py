"""
### Stop a stream

Stops a stream after the batch in hand, and keeps it stopped.

**Use when** its sinks or its topic are under maintenance, or its rows are wrong and no more of them should be written.

**Don't use when** it should run again at once: use *restart_stream*. To stop every stream use *pause_all*.

**What it changes** The stream's desired state becomes *stopped*; its driver is asked to stop, and killed if it has not
within two minutes, which is safe: the batch in hand is delivered again by the next start. Rows, tables and checkpoints stay.

**Steps** check; plan; approve (never needed); act; verify that the driver has ended; report.

**If it fails half-way** supervision brings the stop to its end. Clear the task, or trigger the runbook again.

**Undo** *start_stream*: it goes on where the sinks end.
"""

from airflow.sdk import DAG

from include.airflow_parts.runbook import DEFAULTS, REASON, known_stream_param, lay_spine

with DAG(
    dag_id="stop_stream",
    schedule=None,
    catchup=False,
    default_args=DEFAULTS,
    tags=["runbook"],
    doc_md=__doc__,
    params={"stream": known_stream_param(), "reason": REASON},
):
    lay_spine()
