"""`make compose-env`: writes .env, the generated passwords without which docker-compose.yaml refuses to start.

Standard library only: on the host nothing else need be installed.
"""

import sys
from pathlib import Path

from include.local_stack.secret_files import new_secret, write_for_owner_alone

ENV_FILE = Path(__file__).resolve().parents[2] / ".env"
NAMES = ("POSTGRES_PASSWORD", "AIRFLOW_PASSWORD", "AIRFLOW_FERNET_KEY", "AIRFLOW_JWT_SECRET", "AIRFLOW_SESSION_SECRET")


def main(file: Path = ENV_FILE) -> int:
    try:
        write_env(file)
    except FileExistsError:
        print(f"{file.name} is there already; nothing was changed. To change passwords, edit it and the services by hand.")
        return 1
    print(f"Wrote {file.name}, readable by you alone. Airflow's user is admin, its password AIRFLOW_PASSWORD in that file.")
    return 0


def write_env(file: Path) -> None:
    """Never over an existing one: its passwords are already in the volumes."""
    write_for_owner_alone(file, "".join(f"{name}={new_secret()}\n" for name in NAMES))


if __name__ == "__main__":
    sys.exit(main())
