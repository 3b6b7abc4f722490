"""Airflow takes any key of a run's configuration: a misspelt one would be silently ignored, and another thing done than meant."""

from typing import Any

from include.contract.errors import TidemarkError


class UnknownParameter(TidemarkError):
    """A parameter that the DAG does not have."""


def refuse_unknown_keys(context: Any) -> None:
    dag, known = context["dag"].dag_id, sorted(context["dag"].params)
    if unknown := sorted(set(context["dag_run"].conf or {}) - set(known)):
        raise UnknownParameter(
            f"{', '.join(unknown)} is no parameter of {dag}; there are: {', '.join(known)}.",
            state="Nothing was changed.",
            next_step=f"Trigger {dag} again without it.",
        )
