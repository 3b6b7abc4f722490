"""The environment in which a job finds its environment file, its folder and its connections."""

from include.contract.connections import Connection, variable_name
from include.contract.environment import Environment, LocalStack
from include.local_stack.home import StackHome
from include.local_stack.java import find_java
from include.local_stack.part import base_environment
from include.local_stack.postgres import WAREHOUSE


def job_environment(
    home: StackHome,
    environment: Environment,
    settings: LocalStack,
    kafka: Connection,
    control: Connection,
    warehouse: Connection,
) -> dict[str, str]:
    spark = Connection(settings.spark_master, extra={"deploy-mode": "client"})
    return {
        **base_environment(),
        variable_name(environment.kafka.connection): kafka.to_airflow_json("kafka"),
        variable_name(environment.spark.connection): spark.to_airflow_json("spark"),
        variable_name(environment.control.connection): control.to_airflow_json("postgres"),
        variable_name(WAREHOUSE): warehouse.to_airflow_json("postgres"),
        "JAVA_HOME": str(find_java().parent.parent),
        "TIDEMARK_HOME": str(home.folder),
        "TIDEMARK_ENVIRONMENT": "local",
        **_own_config(home),
    }


def _own_config(home: StackHome) -> dict[str, str]:
    """A stack whose folder has a config/ of its own reads its stream files there, and not in the clone's."""
    return {"TIDEMARK_CONFIG": str(home.config)} if home.config.is_dir() else {}
