"""
### Start a stream

Lets a stream run that is stopped, from where its sinks end.

**Use when** a stream was stopped, by a person or by supervision with an incident, and the cause is mended.

**Don't use when** it runs and misbehaves: use *restart_stream*. When the plan is refused, the refusal names what to do.

**What it changes** The stream's desired state becomes *running*, its incidents are closed, one driver is started. Rows,
tables and older checkpoints stay as they are.

**Steps** check the request; plan the start, per partition; approve, only if the plan loses records or accepts somebody's
change; act, exactly as planned, or refuse if the world has become worse; verify that the new generation commits, or that
there is nothing to read; report.

**If it fails half-way** nothing is lost: before *act* nothing was touched; after it supervision goes on. Clear the failed
task, or trigger the runbook again: one run never starts two drivers.

**Undo** *stop_stream*.
"""

from airflow.sdk import DAG

from include.airflow_parts.runbook import DEFAULTS, REASON, lay_spine, stream_param

with DAG(
    dag_id="start_stream",
    schedule=None,
    catchup=False,
    default_args=DEFAULTS,
    tags=["runbook"],
    doc_md=__doc__,
    params={"stream": stream_param(), "reason": REASON},
):
    lay_spine()
