"""AMQP in the messages of a WebSocket. Pure; wsproto implements the protocol (RFC 6455).

In the WebSocket binding of AMQP, binary messages carry the byte stream of the connection; the boundaries of messages
and frames have no meaning. So bytes are passed on before their message is complete.
"""

from __future__ import annotations

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError

MAX_IDLE_FRAMES = 256
"""Maximum number of pings, pongs and empty frames in one read: more would only cost the router CPU time."""


class WebSocketStream:
    """The server's side of an open WebSocket.

    `answers`: frames to send before others: the pong to the last ping, and the close frame. `ended`: why the stream has
    ended, None while it is open. `refused`: whether it ended because of an error of the client.
    """

    def __init__(self) -> None:
        self._socket = Connection(ConnectionType.SERVER)
        self.answers = b""
        self.ended: str | None = None
        self.refused = False

    def over(self) -> bool:
        """Whether the stream has ended."""
        return self.ended is not None

    def receive(self, data: bytes) -> bytes:
        """The AMQP bytes in `data`, never longer than `data`. Bytes after the end of the stream are ignored."""
        parts: list[bytes] = []
        idle = 0
        self._socket.receive_data(data)
        for event in self._socket.events():
            if isinstance(event, BytesMessage) and event.data:
                parts.append(bytes(event.data))
            elif isinstance(event, TextMessage):
                self._refuse(CloseReason.UNSUPPORTED_DATA, "AMQP needs binary messages")
            elif isinstance(event, CloseConnection):
                self._closed(event)
            else:
                idle += 1
                if isinstance(event, Ping):  # the last one is enough (RFC 6455, 5.5.3)
                    self.answers = bytes(self._socket.send(event.response()))
                if idle > MAX_IDLE_FRAMES:
                    self._refuse(CloseReason.POLICY_VIOLATION, "too many frames without content")
            if self.over():
                break
        return b"".join(parts)

    def frame(self, data: bytes) -> bytes:
        """A message with these AMQP bytes."""
        return bytes(self._socket.send(BytesMessage(data=data)))

    def close(self) -> bytes:
        """The close frame; empty if it has already been sent."""
        return self._close(CloseConnection(code=CloseReason.NORMAL_CLOSURE))

    def _close(self, event: CloseConnection) -> bytes:
        try:
            return bytes(self._socket.send(event))
        except LocalProtocolError:
            return b""

    def _closed(self, event: CloseConnection) -> None:
        """Handle a close frame of the client, or a close that wsproto requests because of a protocol error."""
        if self._socket.state is ConnectionState.OPEN:
            self._refuse(event.code, event.reason or "protocol error")
        else:
            self.answers += self._close(event.response())
            self.ended = "closed by the peer"

    def _refuse(self, code: int, reason: str) -> None:
        self.answers += self._close(CloseConnection(code=code, reason=reason))
        self.ended = f"WebSocket: {reason}"
        self.refused = True
