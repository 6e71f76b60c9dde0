"""A TCP forwarder that plays the Service before routers, and ends connections the way it is told to."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

from tests.kit import frames
from waymesh_amqp.performatives import ErrorInfo

FORCED = frames.close(error=ErrorInfo("amqp:connection:forced", "router is draining"))
WAYS = {
    "close with forced, then end": FORCED,
    "end without close": b"",
    "reset": None,
    "close without error, then end": frames.close(),
}
"""How a connection ends: the last frame before the end of TCP; None for a reset."""
CHUNK = 65536
LINGER_S = 2.0


class Passage:
    """One connection of a client and the one to the router behind it. `heard`: what the client has sent."""

    def __init__(self, client: socket.socket, router: socket.socket) -> None:
        self.client = client
        self.router = router
        self.heard = bytearray()
        self.last_bytes = time.monotonic()
        self._ending: bytes | None = None
        self._told, self._tell = socket.socketpair()
        threading.Thread(target=self._run, daemon=True).start()

    def end(self, last: bytes | None) -> None:
        """End the client's connection: with a last frame, or with a reset for None."""
        self._ending = last
        self._tell.send(b"x")

    def _run(self) -> None:
        """Pass bytes on both ways, and the end of each way as such."""
        other = {self.client: self.router, self.router: self.client}
        open_ways = [self.client, self.router]
        with self.client, self.router, self._told, self._tell, contextlib.suppress(OSError):
            while open_ways:
                ready, _, _ = select.select([*open_ways, self._told], [], [])
                if self._told in ready:
                    self._end_client()
                    return
                for sock in ready:
                    data = sock.recv(CHUNK)
                    if not data:
                        open_ways.remove(sock)
                        other[sock].shutdown(socket.SHUT_WR)
                        continue
                    self.last_bytes = time.monotonic()
                    if sock is self.client:
                        self.heard += data
                    other[sock].sendall(data)

    def _end_client(self) -> None:
        if self._ending is None:
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        self.client.sendall(self._ending)
        self.client.shutdown(socket.SHUT_WR)
        self.client.settimeout(LINGER_S)
        while self.client.recv(CHUNK):
            pass


class Front:
    """Listens on a port of loopback; each new connection goes where `pick()` says: a port of loopback."""

    def __init__(self, pick: Callable[[], int]) -> None:
        self._pick = pick
        self._server = socket.create_server(("127.0.0.1", 0))
        self.passages: list[Passage] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """amqp://127.0.0.1:PORT"""
        return f"amqp://127.0.0.1:{self._server.getsockname()[1]}"

    def close(self) -> None:
        """Accept no more."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                router = socket.create_connection(("127.0.0.1", self._pick()))
            except OSError:
                client.close()
                continue
            router.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.passages.append(Passage(client, router))
