"""What the tasks of `housekeeping` do. Imported when a task runs, never when a DAG file is parsed."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from include.airflow_parts.conf_keys import refuse_unknown_keys
from include.contract.connections import Connection, ConnectionMissing, read_connection, variable_name
from include.contract.environment import Environment, load_environment
from include.contract.identity import DRIVER_LOGS
from include.control.database import ControlDatabase
from include.housekeeping.airflow_logs import sweep_airflow_logs
from include.housekeeping.airflow_runs import sweep_airflow_runs
from include.housekeeping.checkpoints import sweep_checkpoints
from include.housekeeping.control_rows import NEVER_REMOVED, sweep_control_rows
from include.housekeeping.driver_logs import sweep_driver_logs
from include.housekeeping.in_use import read_in_use
from include.housekeeping.swept import Swept


def sweep(kind: str, context: Any) -> str:
    """One kind of thing. Fails after all of it was tried, if something could not be removed."""
    refuse_unknown_keys(context)
    dry_run = bool(context["params"]["dry_run"])
    lines = []
    failed = []
    for swept in KINDS[kind](load_environment(), dry_run):
        lines.append(swept.line(dry_run=dry_run))
        print(lines[-1], flush=True)
        failed += [swept] if swept.failures else []
    for swept in failed:
        swept.check()
    return "\n".join(lines)


def _airflow_runs(environment: Environment, dry_run: bool) -> Iterable[Swept]:
    database = _connection(environment.housekeeping.airflow_connection)
    yield sweep_airflow_runs(database, environment.housekeeping.keep.airflow_runs, dry_run=dry_run)


def _airflow_logs(environment: Environment, dry_run: bool) -> Iterable[Swept]:
    root = Path(conf.get("logging", "base_log_folder"))
    yield sweep_airflow_logs(root, environment.housekeeping.keep.airflow_logs, dry_run=dry_run)


def _driver_logs(environment: Environment, dry_run: bool) -> Iterable[Swept]:
    retention = environment.housekeeping.keep.driver_logs
    in_use = read_in_use(_control(environment), retention)
    yield sweep_driver_logs(environment.home_path(*DRIVER_LOGS), in_use, retention, dry_run=dry_run)


def _checkpoints(environment: Environment, dry_run: bool) -> Iterable[Swept]:
    retention = environment.housekeeping.keep.checkpoints
    in_use = read_in_use(_control(environment), retention)
    yield sweep_checkpoints(environment.checkpoint_path(), in_use, retention, dry_run=dry_run)


def _control_rows(environment: Environment, dry_run: bool) -> Iterable[Swept]:
    print(NEVER_REMOVED, flush=True)
    yield from sweep_control_rows(_control(environment), environment.housekeeping.keep, dry_run=dry_run)


KINDS: dict[str, Callable[[Environment, bool], Iterable[Swept]]] = {
    "airflow_runs": _airflow_runs,
    "airflow_logs": _airflow_logs,
    "driver_logs": _driver_logs,
    "checkpoints": _checkpoints,
    "control_rows": _control_rows,
}


def _control(environment: Environment) -> ControlDatabase:
    control = ControlDatabase(read_connection(environment.control.connection))
    control.migrate()
    return control


def _connection(connection_id: str) -> Connection:
    """Wherever Airflow keeps it; Airflow then hides its password in the task's log."""
    try:
        found = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise ConnectionMissing(
            f"There is no Airflow connection {connection_id}, so that old runs stay in Airflow's database.",
            state="Nothing was removed.",
            next_step=f"Create it for Airflow's own database (Admin, Connections), or set {variable_name(connection_id)}.",
        ) from None
    return Connection(found.host, found.port, found.login, found.password, found.schema, found.extra_dejson)
