"""Messages too large for memory: sent and received in pieces, compared by their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, cast

import proton
from proton.handlers import MessagingHandler

from tests.kit.clients import Client
from tests.kit.waiting import wait_until

BLOCK = 64 * 1024
AHEAD = 4 * BLOCK
"""Bytes that the sender hands to proton before the peer's window lets them out."""
POLL_S = 0.001


def pieces(size: int) -> Iterator[bytes]:
    """The bytes of a message with one data section of `size`; no two blocks are the same."""
    yield b"\x00\x53\x75\xb0" + size.to_bytes(4, "big")
    for number in range(size // BLOCK):
        yield number.to_bytes(8, "big") * (BLOCK // 8)
    yield b"\xff" * (size % BLOCK)


def digest(size: int) -> str:
    """SHA-256 of the message."""
    whole = hashlib.sha256()
    for piece in pieces(size):
        whole.update(piece)
    return whole.hexdigest()


class StreamSender(MessagingHandler):
    """Sends one message of `size` bytes as fast as the peer's session window opens."""

    def __init__(self, client: Client, address: str, size: int) -> None:
        super().__init__()
        self.client = client
        self.handed = 0
        """Bytes handed to proton so far."""
        self.state: int | None = None
        self._pieces = pieces(size)
        self._delivery: proton.Delivery | None = None
        self.link: proton.Sender | None = None
        client.call(lambda: client._container.create_sender(client.connection, address, handler=self))

    def on_sendable(self, event: Any) -> None:
        if self._delivery is None:
            self.link = event.link
            self._delivery = self.link.delivery("large")
            self._more()

    def on_settled(self, event: Any) -> None:
        self.state = event.delivery.remote_state

    def on_timer_task(self, event: Any) -> None:
        self._more()

    def wait_accepted(self, deadline_s: float = 60.0) -> None:
        """Wait until the message is settled."""
        wait_until(lambda: self.state is not None, deadline_s, lambda: f"settlement; {self.handed} bytes handed over")
        assert self.state == proton.Delivery.ACCEPTED

    def _more(self) -> None:
        assert self.link is not None
        while self.state is None and self.link.session.outgoing_bytes < AHEAD:
            piece = next(self._pieces, None)
            if piece is None:
                self.link.advance()
                return
            self.link.stream(piece)
            self.handed += len(piece)
        if self.state is None:
            self.client._container.schedule(POLL_S, self)


class StreamReceiver(MessagingHandler):
    """Takes one message in pieces and accepts it. While `open` is false nothing is read: the session window closes."""

    def __init__(self, client: Client, address: str, window: int = 1024 * 1024, *, open_: bool = True) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.client = client
        self.taken = 0
        """Bytes read so far."""
        self.complete = False
        self.aborted = False
        self.open = open_
        self._digest = hashlib.sha256()
        self._delivery: proton.Delivery | None = None
        self.link = client.call(lambda: self._create(address, window))
        wait_until(lambda: client.call(lambda: self.link.state & proton.Endpoint.REMOTE_ACTIVE), what="attach")

    @property
    def digest(self) -> str:
        """SHA-256 of what was read."""
        return self._digest.hexdigest()

    def start_reading(self) -> None:
        """Open the window."""
        self.open = True
        self.client.call(self._read)

    def on_delivery(self, event: Any) -> None:
        self.link = event.link
        self._delivery = event.delivery
        self._read()

    def wait_complete(self, deadline_s: float = 60.0) -> None:
        """Wait until the whole message was read."""
        wait_until(lambda: self.complete, deadline_s, lambda: f"end of the message; {self.taken} bytes came")

    def _create(self, address: str, window: int) -> proton.Receiver:
        session = self.client.connection.session()
        session.incoming_capacity = window
        session.open()
        # proton takes a session too, which its types do not say
        where = cast("proton.Connection", session)
        link = self.client._container.create_receiver(where, address, handler=self)
        link.flow(1)
        return link

    def _read(self) -> None:
        delivery = self._delivery
        if delivery is None or not self.open or self.complete:
            return
        self.aborted = delivery.aborted
        if self.aborted:
            return
        while delivery.pending:
            data = self.link.recv(delivery.pending)
            assert data is not None
            self._digest.update(data)
            self.taken += len(data)
        if not delivery.partial:
            self.complete = True
            delivery.update(proton.Delivery.ACCEPTED)
            delivery.settle()
