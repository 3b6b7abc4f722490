"""
### Restart a stream

Stops a stream's driver after the batch in hand and starts a new one, from where the sinks end.

**Use when** the stream file has changed and should apply now, a driver misbehaves, or its machine's settings have changed.

**Don't use when** it is stopped with an incident that a restart cannot mend: read the incident, it names the next step.

**What it changes** One driver ends, one starts; the desired state becomes *running*, incidents are closed. Rows, tables and
older checkpoints stay as they are.

**Steps** check; plan the start, per partition; approve, only if the plan loses records or accepts somebody's change; act:
stop, then start exactly as planned, or refuse if the world has become worse; verify that the new generation commits, or that
there is nothing to read; report.

**If it fails half-way** between stop and start, supervision starts the stream within seconds. Clear the failed task, or
trigger the runbook again: one run never starts two drivers.

**Undo** Not needed: no record is lost or delivered twice by a restart.
"""

from airflow.sdk import DAG

from include.airflow_parts.runbook import DEFAULTS, REASON, lay_spine, stream_param

with DAG(
    dag_id="restart_stream",
    schedule=None,
    catchup=False,
    default_args=DEFAULTS,
    tags=["runbook"],
    doc_md=__doc__,
    params={"stream": stream_param(), "reason": REASON},
):
    lay_spine()
