"""Connections wherever Airflow keeps them, put where everything of ours reads them: `AIRFLOW_CONN_<ID>` in this process."""

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from include.contract.connections import Connection, variable_name
from include.contract.errors import TidemarkError


class ConnectionUnusable(TidemarkError):
    """A connection is missing in Airflow, or asks for what drivers cannot do yet."""


def find_connection(connection_id: str) -> Any:
    try:
        return BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise ConnectionUnusable(
            f"There is no Airflow connection {connection_id}.",
            state="Nothing was started.",
            next_step=f"Create it in Airflow (Admin, Connections), or set {variable_name(connection_id)}.",
        ) from None


def as_variables(connection_ids: Iterable[str]) -> dict[str, str]:
    return {variable_name(each): _to_json(find_connection(each)) for each in sorted(connection_ids)}


def make_known(connection_ids: Iterable[str]) -> None:
    """Those that are in the environment already stay as they are; one that is nowhere is missed by whoever asks for it."""
    for each in connection_ids:
        if variable_name(each) not in os.environ:
            with suppress(ConnectionUnusable):
                os.environ.update(as_variables([each]))


def _to_json(found: Any) -> str:
    plain = Connection(found.host, found.port, found.login, found.password, found.schema, found.extra_dejson)
    return plain.to_airflow_json(found.conn_type)
