"""A wire that can be cut."""

import socket
import threading
from contextlib import suppress


class Relay:
    """Stands between a driver and the database; when it is cut, every connection breaks and none is accepted."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._is_cut = self._is_deaf = False
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        self._is_cut = True
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def deafen(self) -> None:
        """What is said to the database still arrives; instead of its answer the connection breaks."""
        self._is_deaf = True

    def mend(self) -> None:
        self._is_cut = self._is_deaf = False

    def close(self) -> None:
        self.cut()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_cut:
                    client.close()
                    continue
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._is_deaf and source.getpeername()[1] == self._target:
                    break
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
