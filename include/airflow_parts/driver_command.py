"""The command line and the environment of a driver, from an Airflow Spark connection and the environment file.

The Spark provider's hook builds the command, and nothing here runs it: the launcher does.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from include.contract.catalog import find_stream
from include.contract.connections import Connection, variable_name
from include.contract.environment import Environment
from include.contract.errors import TidemarkError
from include.contract.identity import application_name
from include.spark_settings import spark_settings
from include.supervision.launcher import Command

JOB = Path(__file__).resolve().parents[2] / "jobs" / "run_stream.py"
NOT_FOR_DRIVERS = ("AIRFLOW", "_AIRFLOW", "__AIRFLOW")  # Airflow's own settings hold its database's password and its keys


class SparkConnectionUnusable(TidemarkError):
    """The Spark connection is missing, or asks for what drivers cannot do yet."""


class DriverSubmitHook(SparkSubmitHook):
    """Refuses where the provider's hook would guess: without a connection that one submits to YARN."""

    def _resolve_connection(self) -> dict[str, Any]:
        found = _connection(self._conn_id)
        resolved: dict[str, Any] = super()._resolve_connection()
        if resolved["deploy_mode"] == "cluster":
            raise SparkConnectionUnusable(
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
    return {**kept, **{variable_name(each): _to_json(_connection(each)) for each in sorted(connection_ids)}}


def _to_json(found: Any) -> str:
    plain = Connection(found.host, found.port, found.login, found.password, found.schema, found.extra_dejson)
    return plain.to_airflow_json(found.conn_type)


def _connection(connection_id: str) -> Any:
    try:
        return BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise SparkConnectionUnusable(
            f"There is no Airflow connection {connection_id}.",
            state="Nothing was started.",
            next_step=f"Create it in Airflow (Admin, Connections), or set {variable_name(connection_id)}.",
        ) from None
