"""Submits one of our batch jobs with spark-submit, from the Spark connection and settings of the environment.

For jobs that end by themselves. A streaming driver is never the child of a task.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

JOBS = Path(__file__).resolve().parents[2] / "jobs"


class SubmitJob(SparkSubmitOperator):
    def __init__(self, *, job: str, connections: Iterable[str] = (), **kwargs: Any) -> None:
        super().__init__(application=str(JOBS / f"{job}.py"), name=job, **kwargs)
        self.connections = sorted(connections)  # beside that of the control database

    def execute(self, context: Any) -> None:
        """The settings are read here and not at parse time: they verify 23 MB of jars."""
        from include.airflow_parts.airflow_connections import make_known
        from include.airflow_parts.conf_keys import refuse_unknown_keys
        from include.contract.connections import variable_name
        from include.contract.environment import load_environment
        from include.spark_settings import spark_settings

        refuse_unknown_keys(context)
        environment = load_environment()
        self.conf = spark_settings(environment)
        self._conn_id = environment.spark.connection
        make_known([environment.control.connection, *self.connections])
        # The provider hands on a task's whole environment: Airflow's database is no business of a job.
        self.env_vars = {variable_name(environment.housekeeping.airflow_connection): ""}
        super().execute(context)
