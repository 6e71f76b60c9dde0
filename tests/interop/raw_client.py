"""A client of raw frames: sends exactly the bytes that a test wants, right or wrong, and shows each frame that comes.

```python
with RawClient(router.port) as raw:
    raw.open()
    raw.begin()
    raw.attach_receiver("orders", credit=1)
    transfer, payload = raw.delivery()
```
All waits have a deadline and fail with AssertionError.
"""

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, Any, TypeVar

from waymesh_amqp.performatives import (
    Attach,
    Begin,
    Close,
    Disposition,
    End,
    Flow,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Terminus,
    Transfer,
    decode_performative,
    encode_frame,
)
from waymesh_amqp.sasl import SaslClient
from waymesh_amqp.types import Raw

if TYPE_CHECKING:  # this file also runs by itself in pods
    from tests.kit.web_socket import WebSocket

DEADLINE_S = 30.0
AMQP = b"AMQP\x00\x01\x00\x00"
SASL = b"AMQP\x03\x01\x00\x00"
WINDOW = 2**31 - 1
ACCEPTED = b"\x00\x53\x24\x45"

P = TypeVar("P")


class Ended(AssertionError):
    """The router closed the connection."""


class Refused(AssertionError):
    """The router sent an end or a close that the test did not expect; `condition`: of its error, or empty."""

    def __init__(self, performative: End | Close) -> None:
        super().__init__(f"ended: {performative}")
        self.condition = str(performative.error.condition) if performative.error is not None else ""


class RawClient:
    """A connection. `frame()` gives what comes, in order; the helpers skip what they do not ask for."""

    def __init__(
        self,
        port: int,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        source: str = "",
        over: WebSocket | socket.socket | None = None,
    ) -> None:
        """`source`: the address that the client has, if not the usual one; `over`: an open WebSocket or accepted
        connection, in place of a connection of its own."""
        self._socket: socket.socket | WebSocket = over or socket.create_connection(
            (host, port), DEADLINE_S, (source, 0) if source else None
        )
        if tls is not None and isinstance(self._socket, socket.socket):
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self.last = b""
        """The body of the last frame."""
        self.channel = 0
        """The channel of the last frame."""
        self._data = b""
        self._next_delivery = 0
        self._next_handle = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    # ---- bytes
    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def put(self, performative: Any, payload: bytes = b"", channel: int = 0) -> None:
        """Send a frame."""
        self.send(encode_frame(channel, performative, payload))

    def read(self, count: int) -> bytes:
        """Exactly that many bytes. Raises Ended when the connection ends before."""
        while len(self._data) < count:
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                raise AssertionError(f"nothing came within {DEADLINE_S} s; before: {self._data!r}") from None
            except ConnectionResetError:
                data = b""
            if not data:
                raise Ended(f"connection ended; before: {self._data!r}")
            self._data += data
        taken, self._data = self._data[:count], self._data[count:]
        return taken

    def read_to_end(self) -> bytes:
        """All that comes until the router closes the connection."""
        found = b""
        try:
            while True:
                found += self.read(1)
        except Ended:
            return found

    def waiting(self, seconds: float) -> bytes:
        """What comes within this time; it may be a part of a frame, which later reads do not see."""
        if self._data:
            taken, self._data = self._data, b""
            return taken
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(65536)
        except TimeoutError:
            return b""
        finally:
            self._socket.settimeout(DEADLINE_S)

    # ---- frames
    def frame(self) -> tuple[Any, bytes]:
        """The next frame that is not empty: performative and payload."""
        while True:
            head = self.read(8)
            body = self.read(int.from_bytes(head[:4], "big") - 8)
            body = body[head[4] * 4 - 8 :]
            if body:
                self.last = body
                self.channel = int.from_bytes(head[6:8], "big")
                performative, at = decode_performative(body, 0, len(body))
                return performative, body[at:]

    def expect(self, kind: type[P]) -> P:
        """The next frame of this kind; others are skipped. Raises Refused for an unexpected end or close."""
        while True:
            performative, _ = self.frame()
            if isinstance(performative, kind):
                return performative
            if isinstance(performative, (Close, End)):
                raise Refused(performative)

    def close_error(self) -> tuple[str, str]:
        """Condition and description of the close that comes; then the connection ends."""
        error = self.expect(Close).error
        assert error is not None
        self.read_to_end()
        return str(error.condition), str(error.description)

    def delivery(self) -> tuple[Transfer, bytes]:
        """The next delivery: its first transfer and all its payload."""
        found: Transfer | None = None
        payload = b""
        while True:
            performative, part = self.frame()
            if isinstance(performative, (Close, End)):
                raise Refused(performative)
            if isinstance(performative, Transfer):
                found = found or performative
                payload += part
                if not performative.more:
                    return found, payload

    # ---- conversation
    def login(self, mechanism: str, user: str, password: str) -> SaslOutcome:
        """The whole SASL exchange with one mechanism; checks the router's signature where it lets us in."""
        sasl = SaslClient([mechanism], user, password)
        self.send(SASL)
        assert self.read(8) == SASL
        chosen, response = sasl.select(self.expect(SaslMechanisms).sasl_server_mechanisms)
        self.put(SaslInit(mechanism=chosen, initial_response=response))
        while True:
            answer, _ = self.frame()
            if isinstance(answer, SaslChallenge):
                self.put(SaslResponse(response=sasl.challenge(answer.challenge)))
                continue
            assert isinstance(answer, SaslOutcome)
            if answer.code == 0:
                sasl.outcome(answer.code, answer.additional_data)
            return answer

    def open(self, sasl: bool = True, **fields: Any) -> Open:
        """Headers, SASL ANONYMOUS unless told otherwise, open; the router's open."""
        if sasl:
            self.send(SASL)
            assert self.read(8) == SASL
            self.expect(SaslMechanisms)
            self.put(SaslInit(mechanism="ANONYMOUS"))
            assert self.expect(SaslOutcome).code == 0
        self.send(AMQP)
        assert self.read(8) == AMQP
        self.put(Open(**{"container_id": "raw", **fields}))
        return self.expect(Open)

    def begin(self, channel: int = 0, **fields: Any) -> Begin:
        """A session."""
        window = {"next_outgoing_id": 0, "incoming_window": WINDOW, "outgoing_window": WINDOW}
        self.put(Begin(**{**window, **fields}), channel=channel)
        return self.expect(Begin)

    def attach_receiver(self, address: str, credit: int = 0, **fields: Any) -> int:
        """A receiving link; its handle."""
        source, target = Terminus(kind="source", address=address), Terminus(kind="target")
        handle, _ = self._attach(role=True, source=source, target=target, **fields)
        if credit:
            self.flow(handle, credit)
        return handle

    def attach_sender(self, address: str | None, wait_credit: bool = True, **fields: Any) -> int:
        """A sending link; its handle, when it has credit."""
        source, target = Terminus(kind="source"), Terminus(kind="target", address=address)
        handle, answer = self._attach(role=False, source=source, target=target, initial_delivery_count=0, **fields)
        while wait_credit:
            flow = self.expect(Flow)
            wait_credit = flow.handle != answer.handle or not flow.link_credit  # others may be of other links
        return handle

    def flow(self, handle: int, credit: int, **fields: Any) -> None:
        """Give credit on a receiving link on which nothing has arrived yet."""
        window = {"next_incoming_id": 0, "incoming_window": WINDOW, "next_outgoing_id": 0, "outgoing_window": WINDOW}
        self.put(Flow(**{**window, "handle": handle, "delivery_count": 0, "link_credit": credit, **fields}))

    def transfer(self, handle: int, payload: bytes, **fields: Any) -> int:
        """A delivery in one frame; its id."""
        delivery_id = self._next_delivery
        self._next_delivery += 1
        usual = {"delivery_id": delivery_id, "delivery_tag": delivery_id.to_bytes(4, "big"), "message_format": 0}
        self.put(Transfer(**{**usual, "handle": handle, **fields}), payload)
        return delivery_id

    def accept(self, delivery_id: int) -> None:
        """Settle a delivery that came."""
        self.put(Disposition(role=True, first=delivery_id, settled=True, state=Raw(ACCEPTED)))

    def _attach(self, **fields: Any) -> tuple[int, Attach]:
        """A new link: its handle and the router's answer."""
        handle = self._next_handle
        self._next_handle += 1
        attach = Attach(**{"name": f"raw-{handle}", "handle": handle, **fields})
        self.put(attach)
        while (answer := self.expect(Attach)).name != attach.name:
            pass
        return handle, answer


def accepted(acceptor: socket.socket, **fields: Any) -> RawClient:
    """The next connection of a router's connector, opened as a container without log-in."""
    peer = RawClient(0, over=acceptor.accept()[0])
    assert peer.read(8) == SASL
    peer.send(SASL)
    peer.put(SaslMechanisms(sasl_server_mechanisms=["ANONYMOUS"]))
    peer.expect(SaslInit)
    peer.put(SaslOutcome(code=0))
    assert peer.read(8) == AMQP
    peer.send(AMQP)
    peer.put(Open(**{"container_id": "raw", **fields}))
    peer.expect(Open)
    return peer
