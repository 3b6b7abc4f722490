"""Addresses and passwords by connection id, from `AIRFLOW_CONN_<ID>` in Airflow's JSON form.

Airflow reads the same variables, so a DAG and the Spark job it starts mean the same place. Works without Airflow.
"""

import json
import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from include.contract.errors import TidemarkError


class ConnectionMissing(TidemarkError):
    """A connection id that nothing in this process's environment explains."""


@dataclass(frozen=True)
class Connection:
    host: str
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def postgres_url(self) -> str:
        """As SQLAlchemy reads it, with the password: for an environment, never for a command line or a log."""
        login = f"{quote(self.login or '', safe='')}:{quote(self.password or '', safe='')}"
        place = self.address if self.port else self.host
        return f"postgresql+psycopg2://{login}@{place}/{self.schema}" + (f"?{urlencode(self.extra)}" if self.extra else "")

    def to_airflow_json(self, conn_type: str) -> str:
        return json.dumps({"conn_type": conn_type, **{key: value for key, value in vars(self).items() if value}})


def variable_name(connection_id: str) -> str:
    return f"AIRFLOW_CONN_{connection_id.upper()}"


def read_connection(connection_id: str) -> Connection:
    text = os.environ.get(variable_name(connection_id))
    if text is None:
        raise ConnectionMissing(
            f"Connection {connection_id} is not set: there is no {variable_name(connection_id)} in the environment.",
            state="Nothing was started.",
            next_step="Start the job from Airflow, or export the variable in Airflow's JSON form.",
        )
    try:
        values = json.loads(text)
        known = {name: values[name] for name in vars(Connection("")) if values.get(name) is not None}
        extra = known.get("extra", {})
        return Connection(**{"host": "", **known, "extra": json.loads(extra) if isinstance(extra, str) else extra})
    except (ValueError, TypeError, AttributeError) as error:
        raise ConnectionMissing(
            f"{variable_name(connection_id)} is not a connection in Airflow's JSON form ({type(error).__name__}).",
            state="Nothing was started.",
            next_step='Write it as {"conn_type": "postgres", "host": ..., "port": ..., "login": ..., "password": ...}.',
        ) from None
