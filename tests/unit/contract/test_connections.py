"""Connections: the same variables that Airflow reads."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from sqlalchemy import make_url

from include.contract.connections import Connection, ConnectionMissing, read_connection


def test_a_connection_survives_the_way_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Connection("db.example", 5432, "someone", "p@ss=word", "sales", {"sslmode": "require"})
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", written.to_airflow_json("postgres"))
    assert read_connection("warehouse") == written


def test_airflow_reads_the_same_connection() -> None:
    text = Connection("db.example", 5432, "someone", "p@ss=word", "sales", {"sslmode": "require"}).to_airflow_json("postgres")
    code = (
        "from airflow.sdk import Connection; import os, json; read = Connection.from_json(os.environ['TEXT'], conn_id='x');"
        "print(json.dumps([read.conn_type, read.host, read.port, read.password, read.extra_dejson]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TEXT": text}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == ["postgres", "db.example", 5432, "p@ss=word", {"sslmode": "require"}]


def test_a_password_is_never_printed() -> None:
    assert "p@ss" not in repr(Connection("db.example", password="p@ss=word"))  # noqa: S106


def test_sqlalchemy_reads_the_same_address() -> None:
    written = Connection("db.example", 5432, "some one", "p@ss/w:o%r$d", "sales", {"sslmode": "require"})
    read = make_url(written.postgres_url)
    assert (read.host, read.port, read.username, read.password) == ("db.example", 5432, "some one", "p@ss/w:o%r$d")
    assert (read.drivername, read.database, read.query) == ("postgresql+psycopg2", "sales", {"sslmode": "require"})
    assert make_url(replace(written, port=None).postgres_url).port is None


def test_a_missing_connection_names_its_variable() -> None:
    with pytest.raises(ConnectionMissing, match="AIRFLOW_CONN_NOWHERE"):
        read_connection("nowhere")
