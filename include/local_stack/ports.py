"""Chooses free loopback ports, remembers them, and names who sits on one that is taken.

Two stacks that start at the same moment never choose the same port: a choice is claimed by a name that the kernel
drops when the choosing command ends, by which time the part itself listens there.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from include.contract.errors import TidemarkError

LOOPBACK = "127.0.0.1"
PORTS_TRIED = 500


class PortTaken(TidemarkError):
    """A port that was asked for by number belongs to another process."""


class Ports:
    """The ports of one stack."""

    def __init__(self, memory: Path) -> None:
        self._memory = memory
        self._claims: dict[int, socket.socket] = {}
        self.chosen: dict[str, int] = _read(memory)

    def choose(self, name: str, first: int, asked_for: int | None = None) -> str | None:
        """Sets `chosen[name]`; returns a sentence if that is not the port it was last time."""
        remembered = self.chosen.get(name)
        reason = "as asked"
        if asked_for:
            self._take_exactly(name, asked_for)
        elif not (remembered and self._claim(remembered)):
            reason = f"which is taken by {holder_of(remembered)}" if remembered else ""
            self.chosen[name] = self._first_free(name, first)
        self._remember()
        moved = remembered and remembered != self.chosen[name]
        return f"{name} moves to port {self.chosen[name]} from {remembered}, {reason}" if moved else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Around choosing and starting: afterwards the parts listen themselves, and the claims are let go."""
        try:
            yield
        finally:
            for claim in self._claims.values():
                claim.close()
            self._claims.clear()

    def _take_exactly(self, name: str, port: int) -> None:
        if not self._claim(port):
            raise PortTaken(
                f"Port {port}, asked for by {name.upper()}_PORT, is taken by {holder_of(port)}.",
                state="Nothing was started.",
                next_step=f"Stop that process, or choose another port, or leave {name.upper()}_PORT out to get a free one.",
            )
        self.chosen[name] = port

    def _first_free(self, name: str, first: int) -> int:
        for port in range(first, first + PORTS_TRIED):
            if self._claim(port):
                return port
        raise PortTaken(
            f"All of the {PORTS_TRIED} ports from {first} on are taken, the first by {holder_of(first)}.",
            state="Nothing was started.",
            next_step=f"Stop what holds them, or give `make up` a free port by {name.upper()}_PORT.",
        )

    def _claim(self, port: int) -> bool:
        if port in self._claims:
            return False
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0tidemark-port-{port}")  # an abstract name: atomic, no file, gone with its holder
        except OSError:
            claim.close()
            return False
        if not is_free(port):
            claim.close()
            return False
        self._claims[port] = claim
        return True

    def _remember(self) -> None:
        unfinished = self._memory.with_suffix(".new")
        unfinished.write_text(json.dumps(self.chosen, indent=2) + "\n")
        unfinished.replace(self._memory)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free for a server
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def holder_of(port: int) -> str:
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
            if connection.pid is None:
                break
            return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    return "a process of another user, or by another start that has not got as far as listening"


def _read(memory: Path) -> dict[str, int]:
    """A file that a power cut left empty is as good as none: the ports are chosen anew."""
    try:
        return dict(json.loads(memory.read_text()))
    except (FileNotFoundError, ValueError):
        return {}
