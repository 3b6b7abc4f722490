"""Lays out runbook DAGs: their parameters, and the spine check, plan, approve, act, verify, report.

Read when a DAG file is parsed, so it imports nothing heavy; what the steps do is `runbook_steps`.
"""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param, chain, task
from airflow.sdk.exceptions import AirflowSkipException

from include.contract.catalog import read_catalog

ANSWER = "answer"  # of the person who was asked
APPROVAL_HOURS = 1  # a plan that is older shows a world that is gone
DEFAULTS = {"owner": "tidemark", "retries": 0}  # an act that failed half-way is looked at, not repeated blindly
REASON = Param(type="string", minLength=3, maxLength=500, title="Reason", description="Why you do this; kept in the journal")
DRY_RUN = Param(
    True, type="boolean", title="Dry run", description="On: the plan is made and shown, nothing is changed. Off: it acts"
)
SUBJECT = (
    "{{ dag.dag_id }}{{ ' ' ~ params.stream if params.stream is defined else '' }}, "
    "asked for by {{ dag_run.triggering_user_name }}: {{ params.reason }}"
)
BODY = """{{ ti.xcom_pull(task_ids='plan')['text'] }}

*Approve* accepts exactly what is shown here, for this one start. *Reject* changes nothing."""


def stream_param() -> Param:
    """A drop-down of the valid stream files."""
    names = sorted(read_catalog().streams)
    choices = {"enum": names} if names else {}
    return Param(type="string", minLength=1, title="Stream", description="One of config/streams", **choices)


def known_stream_param() -> Param:
    """Also one whose file is gone: its driver still runs. The check step refuses a name that nobody knows."""
    names = sorted(read_catalog().streams)
    return Param(
        type="string", minLength=1, title="Stream", description="Its name; also of a stream whose file is gone", examples=names
    )


class ApproveIfNeeded(ApprovalOperator):
    """Asks a person only for what the plan says needs approval; a dry run ends before it."""

    def execute(self, context: Any) -> Any:
        planned = context["ti"].xcom_pull(task_ids="plan")
        if context["params"].get("dry_run"):
            raise AirflowSkipException("Dry run: the plan was made, nothing is changed.")
        if not planned["needs_approval"]:
            return "not needed"
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """The answer is kept first: a rejection ends the task by skipping, which keeps nothing."""
        told = {name: event.get(name) for name in ("chosen_options", "responded_by_user")}
        told["plan"] = context["ti"].xcom_pull(task_ids="plan")["text"]  # what the person was shown
        context["ti"].xcom_push(key=ANSWER, value=told)
        return super().execute_complete(context, event)

    @property
    def serialized_params(self) -> dict[str, dict[str, Any]]:
        """The run's own parameters are no question to the person who approves."""
        return {}


def lay_spine() -> None:
    """Called inside a DAG whose id is the runbook's name."""

    @task(task_id="check")
    def check(**context: Any) -> str:
        from include.airflow_parts.runbook_steps import check

        return check(context)

    @task(task_id="plan")
    def plan(**context: Any) -> dict[str, Any]:
        from include.airflow_parts.runbook_steps import plan

        return plan(context)

    approve = ApproveIfNeeded(
        task_id="approve",
        subject=SUBJECT,
        body=BODY,
        response_timeout=timedelta(hours=APPROVAL_HOURS),
    )

    @task(task_id="act")
    def act(**context: Any) -> dict[str, Any]:
        from include.airflow_parts.runbook_steps import act

        return act(context)

    @task(task_id="verify")
    def verify(**context: Any) -> str:
        from include.airflow_parts.runbook_steps import verify

        return verify(context)

    @task(task_id="report", trigger_rule="all_done")
    def report(**context: Any) -> str:
        from include.airflow_parts.runbook_steps import report

        return report(context)

    chain(check(), plan(), approve, act(), verify(), report())
