"""A WebSocket for clients of raw frames: bytes sent are binary messages, and bytes received are those of messages."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Pong,
    RejectConnection,
    RejectData,
    Request,
)
from wsproto.extensions import PerMessageDeflate
from wsproto.typing import Headers

DEADLINE_S = 30.0


class Rejected(Exception):
    """The handshake was refused with this status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status


class WebSocket:
    """The client's side of an open WebSocket. `pongs`: contents of those that came; `closed`: code and reason."""

    def __init__(
        self,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        subprotocols: Sequence[str] = ("amqp",),
        origin: str | None = None,
        receive_bytes: int | None = None,
    ) -> None:
        """`receive_bytes`: size of the kernel's buffer for what comes. Raises Rejected."""
        plain = socket.socket()
        if receive_bytes is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        plain.settimeout(DEADLINE_S)
        plain.connect(("127.0.0.1", port))
        self.socket: socket.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="127.0.0.1")
        self.pongs: list[bytes] = []
        self.closed: tuple[int, str] | None = None
        self.accepted: AcceptConnection | None = None
        self._socket = WSConnection(ConnectionType.CLIENT)
        self._bytes = b""
        headers: Headers = [] if origin is None else [(b"Origin", origin.encode())]
        request = Request(
            host=f"127.0.0.1:{port}",
            target="/amqp",
            subprotocols=list(subprotocols),
            extensions=[PerMessageDeflate()],
            extra_headers=headers,
        )
        self.socket.sendall(self._socket.send(request))
        text = b""
        status = 0
        while self.accepted is None:
            events = self._events()
            if not events:
                self.socket.close()
                raise ConnectionError("the connection ended before the handshake")
            for event in events:
                if isinstance(event, AcceptConnection):
                    self.accepted = event
                elif isinstance(event, RejectConnection):
                    status = event.status_code
                elif isinstance(event, RejectData):
                    text += event.data
                    if event.body_finished:
                        self.socket.close()
                        raise Rejected(status, text.decode())
                else:
                    raise AssertionError(event)

    def send(self, event: Event) -> None:
        """Send a message, a part of one, or a control frame."""
        self.socket.sendall(self._socket.send(event))

    def wait_closed(self) -> tuple[int, str]:
        """Until the router has closed the WebSocket and then the connection: code and reason."""
        while self.recv(65536):
            pass
        assert self.closed is not None
        return self.closed

    # ---- what a socket has
    def sendall(self, data: bytes) -> None:
        """Send bytes as one message."""
        self.send(BytesMessage(data=data))

    def recv(self, size: int) -> bytes:
        """Some bytes of messages; none at the end."""
        while not self._bytes:
            events = self._events()
            if not events:
                return b""
            for event in events:
                if isinstance(event, BytesMessage):
                    self._bytes += event.data
                elif isinstance(event, Pong):
                    self.pongs.append(bytes(event.payload))
                elif isinstance(event, CloseConnection):
                    self.closed = event.code, event.reason or ""
        taken, self._bytes = self._bytes[:size], self._bytes[size:]
        return taken

    def settimeout(self, seconds: float) -> None:
        """Time limit of `recv`."""
        self.socket.settimeout(seconds)

    def close(self) -> None:
        """Close the connection without a word."""
        self.socket.close()

    def _events(self) -> list[Event]:
        """The next events; none at the end of the connection."""
        while True:
            data = self.socket.recv(65536)
            if not data:
                return []
            self._socket.receive_data(data)
            events = list(self._socket.events())
            if events:
                return events
