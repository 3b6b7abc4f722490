"""The environment file: sizes and connection ids of one place where Tidemark runs. Never a password, never a port."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from include.contract.errors import TidemarkError
from include.contract.quantities import ByteCount, Duration

ENVIRONMENTS = Path(__file__).resolve().parents[2] / "config" / "environments"
Retention = Annotated[Duration, Field(ge=timedelta(days=1))]  # `airflow db clean` also takes runs that are under way


class EnvironmentInvalid(TidemarkError):
    """An environment file that cannot be used as it stands."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spark(_Section):
    connection: str
    driver_memory: str
    shuffle_partitions: int


class Kafka(_Section):
    """`durable_topics`: what a sink writes to Kafka must survive the loss of a broker; otherwise a start is refused."""

    connection: str
    durable_topics: bool


class Control(_Section):
    connection: str


class Retentions(_Section):
    """How long each kind of thing is kept after it was last touched."""

    airflow_runs: Retention
    airflow_logs: Retention
    driver_logs: Retention
    checkpoints: Retention
    progress: Retention
    launches: Retention
    incidents: Retention
    journal: Retention


class Housekeeping(_Section):
    airflow_connection: str
    keep: Retentions


class Maintenance(_Section):
    """Of Delta tables. A file that nobody needs any more stays a week at least: a query, a RESTORE or a driver that sleeps in the
    middle of a write may still want it."""

    file_size: ByteCount
    commit_size: ByteCount
    keep_removed_files: Annotated[Duration, Field(ge=timedelta(days=7))]


class Backups(_Section):
    """Of stateful streams' checkpoints, by maintain_checkpoints: the newest `keep` stay, and all younger than `keep_for`."""

    place: str
    keep: Annotated[int, Field(ge=1)]
    keep_for: Duration


class FirstPorts(_Section):
    airflow: int
    kafka: int
    kafka_controller: int
    postgres: int


class LocalStack(_Section):
    spark_master: str
    first_ports: FirstPorts
    kafka_heap: str
    airflow_parallelism: int


class Environment(_Section):
    spark: Spark
    kafka: Kafka
    control: Control
    housekeeping: Housekeeping
    maintenance: Maintenance
    backups: Backups
    lake: str
    checkpoints: str
    scratch: str
    local_stack: LocalStack | None = None

    def lake_path(self, *parts: str) -> str:
        """A table's place: below the lake's URI, or below the stack's folder when the lake is a plain name."""
        return _place(self.lake, *parts)

    def checkpoint_path(self, *parts: str) -> Path:
        return Path(_place(self.checkpoints, *parts))

    def backup_path(self, *parts: str) -> Path:
        return Path(_place(self.backups.place, *parts))

    def scratch_path(self) -> Path:
        return Path(_place(self.scratch))

    def home_path(self, *parts: str) -> Path:
        """What every process of this deployment shares on disk beside tables: drivers' folders and logs."""
        return Path(os.environ["TIDEMARK_HOME"]).joinpath(*parts)


def _place(root: str, *parts: str) -> str:
    return "/".join([root if "://" in root else str(Path(os.environ["TIDEMARK_HOME"]) / root), *parts])


def load_environment(name: str | None = None) -> Environment:
    """The named environment, else the one that `TIDEMARK_ENVIRONMENT` names, else local."""
    file = ENVIRONMENTS / f"{name or os.environ.get('TIDEMARK_ENVIRONMENT') or 'local'}.yaml"
    try:
        return Environment.model_validate(yaml.safe_load(file.read_text()))
    except FileNotFoundError:
        there = ", ".join(sorted(known.stem for known in ENVIRONMENTS.glob("*.yaml")))
        raise EnvironmentInvalid(
            f"There is no {file.name} in config/environments (there are: {there}).",
            state="Nothing was started.",
            next_step="Set TIDEMARK_ENVIRONMENT to one of them.",
        ) from None
    except (ValidationError, yaml.YAMLError) as error:
        raise EnvironmentInvalid(
            f"config/environments/{file.name} is not valid: {error}",
            state="Nothing was started.",
            next_step="Mend the file, then run the same command again.",
        ) from error
