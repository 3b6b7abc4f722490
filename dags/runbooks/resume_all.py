"""
### Resume all streams

Lifts the pause of *pause_all*: every stream that should run goes on where its sinks end.

**Use when** the maintenance for which all streams were paused is over.

**Don't use when** nothing is paused: it refuses. To start one stream use *start_stream*.

**What it changes** The pause is lifted. Supervision starts each stream whose own desired state is *running*; a stream that a
person had stopped stays stopped.

**Steps** check; plan; approve (never needed); act; verify that the pause is lifted; report.

**If it fails half-way** the pause is lifted or it is not: the report says which. Trigger it again if in doubt.

**Undo** *pause_all*.
"""

from airflow.sdk import DAG

from include.airflow_parts.runbook import DEFAULTS, REASON, lay_spine

with DAG(
    dag_id="resume_all",
    schedule=None,
    catchup=False,
    default_args=DEFAULTS,
    tags=["runbook"],
    doc_md=__doc__,
    params={"reason": REASON},
):
    lay_spine()
