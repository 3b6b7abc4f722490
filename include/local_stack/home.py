"""Where one stack keeps everything it has: data, logs, secrets, ports and process records, all below one folder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from include.contract.errors import TidemarkError
from include.local_stack.secret_files import new_secret, write_for_owner_alone

PROJECT = Path(__file__).resolve().parents[2]
VAR = PROJECT / "var"


class StackBusy(TidemarkError):
    """Another command is starting or stopping this stack."""


@dataclass(frozen=True)
class StackHome:
    folder: Path

    @property
    def ports_file(self) -> Path:
        return self.folder / "ports.json"

    @property
    def config(self) -> Path:
        """Stream files and schemas of this stack alone, if there are any."""
        return self.folder / "config"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def data(self, part: str) -> Path:
        return self.folder / part

    def log(self, part: str) -> Path:
        return self.folder / "logs" / f"{part}.log"

    def record(self, part: str) -> Path:
        return self.folder / "run" / f"{part}.json"

    def secret_file(self, name: str) -> Path:
        return self.folder / "secrets" / name

    def secret(self, name: str) -> str:
        return self.secret_file(name).read_text().strip()

    def make(self, secret_names: list[str]) -> None:
        for folder in (self.folder, self.lake, self.folder / "logs", self.folder / "run"):
            folder.mkdir(parents=True, exist_ok=True)
        self.secret_file("").mkdir(mode=0o700, exist_ok=True)
        for name in secret_names:
            self._make_secret(name)

    def _make_secret(self, name: str) -> None:
        """Once; complete or absent, because it enters by rename."""
        if self.secret_file(name).exists():
            return
        unfinished = self.secret_file(f".{name}")
        unfinished.unlink(missing_ok=True)
        write_for_owner_alone(unfinished, f"{new_secret()}\n")
        unfinished.replace(self.secret_file(name))

    @contextmanager
    def only_one_at_a_time(self) -> Iterator[None]:
        """Held while parts start or stop. The kernel lets go when the holder dies, and no lock file exists."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackBusy(
                f"Another command is starting or stopping the stack in {self.folder}.",
                state="This command did nothing.",
                next_step="Let the other one finish, then run the same command again; `make status` shows where it stands.",
            ) from None


def stacks_below(folder: Path) -> list[StackHome]:
    """Every stack of this clone: the one of `make up` and the one of `make demo`."""
    return [StackHome(home) for home in sorted(folder.glob("*")) if StackHome(home).ports_file.exists()]
