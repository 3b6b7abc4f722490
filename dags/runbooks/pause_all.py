"""
### Pause all streams

Stops every stream after the batch in hand, and keeps all of them stopped until *resume_all*.

**Use when** the broker, the lake or the whole platform is under maintenance.

**Don't use when** one stream should stop: use *stop_stream*.

**What it changes** A pause lies over all streams; each stream's own desired state stays, and holds again after the pause.
Drivers are asked to stop, and killed if they have not within two minutes, which is safe. Data stays as it is.

**Steps** check; plan; approve (never needed); act, stream by stream; verify that no driver is left; report.

**If it fails half-way** the pause holds already, and supervision stops what still runs. Trigger it again if in doubt.

**Undo** *resume_all*.
"""

from airflow.sdk import DAG

from include.airflow_parts.runbook import DEFAULTS, REASON, lay_spine

with DAG(
    dag_id="pause_all",
    schedule=None,
    catchup=False,
    default_args=DEFAULTS,
    tags=["runbook"],
    doc_md=__doc__,
    params={"reason": REASON},
):
    lay_spine()
