"""The command line and the environment of a driver, from an Airflow Spark connection and the environment file.

The Spark provider's hook builds the command, and nothing here runs it: the launcher does.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from include.airflow_parts.airflow_connections import ConnectionUnusable, as_variables, find_connection
from include.contract.catalog import find_stream
from include.contract.environment import Environment
from include.contract.identity import application_name
from include.spark_settings import spark_settings
from include.supervision.launcher import Command

JOB = Path(__file__).resolve().parents[2] / "jobs" / "run_stream.py"
NOT_FOR_DRIVERS = ("AIRFLOW", "_AIRFLOW", "__AIRFLOW")  # Airflow's own settings hold its database's password and its keys


class DriverSubmitHook(SparkSubmitHook):
    """Refuses where the provider's hook would guess: without a connection that one submits to YARN."""

    def _resolve_connection(self) -> dict[str, Any]:
        found = find_connection(self._conn_id)
        resolved: dict[str, Any] = super()._resolve_connection()
        if resolved["deploy_mode"] == "cluster":
            raise ConnectionUnusable(
                f"Connection {self._conn_id} ({found.host}) has deploy-mode cluster, but drivers run in client mode.",
                state="Nothing was started.",
                next_step='Set "deploy-mode": "client" in its extra field.',
            )
        return resolved

    def command(self, application: str) -> list[str]:
        """Not by the provider's own last step, which writes all of it, class path included, into the log of supervision."""
        return [*self._get_spark_binary_path(), *self._build_spark_common_args(), application, *self._application_args]


def driver_command(environment: Environment, stream: str, launch: str) -> Command:
    hook = DriverSubmitHook(
        conf=spark_settings(environment),
        conn_id=environment.spark.connection,
        name=application_name(stream, launch),
        application_args=[stream, "--launch", launch],
    )
    needed = {environment.control.connection, environment.spark.connection, *find_stream(stream).spec.connections}
    return Command(hook.command(str(JOB)), _environment(needed))


def _environment(connection_ids: Iterable[str]) -> dict[str, str]:
    """Ours, without Airflow's; and the connections that the driver needs, wherever Airflow keeps them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_DRIVERS)}
    return {**kept, **as_variables(connection_ids)}
