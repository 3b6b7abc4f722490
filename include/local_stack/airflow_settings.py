"""The environment in which the embedded Airflow components, and everything they start, run."""

from include.contract.connections import Connection, variable_name
from include.contract.environment import Environment, LocalStack
from include.local_stack.home import PROJECT, StackHome
from include.local_stack.ports import LOOPBACK

PASSWORD = "airflow_password"  # the names of secrets, not the secrets
SECRETS = ("airflow_fernet_key", "airflow_jwt_secret", "airflow_session_secret")
USER = "admin"


def airflow_url(ports: dict[str, int]) -> str:
    return f"http://{LOOPBACK}:{ports['airflow']}"


def airflow_environment(
    home: StackHome,
    ports: dict[str, int],
    environment: Environment,
    settings: LocalStack,
    database: Connection,
    for_jobs: dict[str, str],
) -> dict[str, str]:
    return {
        **for_jobs,
        **_settings(home, ports, settings),
        **_secrets(home, database),
        # Airflow hides its own database from tasks; housekeeping needs it, and jobs never get it.
        variable_name(environment.housekeeping.airflow_connection): database.to_airflow_json("postgres"),
        "AIRFLOW_HOME": str(home.data("airflow")),
    }


def _settings(home: StackHome, ports: dict[str, int], settings: LocalStack) -> dict[str, str]:
    return {
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "include" / "airflow_parts" / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Supervision must run without anybody having thought of switching it on.
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": str(settings.airflow_parallelism),
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{airflow_url(ports)}/execution/",
        "AIRFLOW__API__BASE_URL": airflow_url(ports),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home.data("airflow") / "logs"),
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
        # A new DAG file shows up within half a minute instead of five.
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        # One that is known is read again each minute, for the stream files: each time costs a second of a core.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
        # After a scheduler was killed, supervision goes on when its lost task is given up: within a minute instead of five.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
        # Nothing here talks to the outside.
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def _secrets(home: StackHome, database: Connection) -> dict[str, str]:
    fernet_key, jwt_secret, session_secret = (home.secret(name) for name in SECRETS)
    return {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.postgres_url,
        "AIRFLOW__CORE__FERNET_KEY": fernet_key,
        "AIRFLOW__API_AUTH__JWT_SECRET": jwt_secret,
        "AIRFLOW__API__SECRET_KEY": session_secret,
    }
