"""A raw AMQP connection for benchmarks: sends prepared frames unchanged, counts answers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from tests.bench.errors import BenchError
from tests.bench.secured import READ_BYTES, connect
from tests.kit import frames
from waymesh_amqp.performatives import Flow, decode_performative
from waymesh_amqp.types import Symbol

TIMEOUT_S: Final = 60.0
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
"""Codes of the performatives that are counted. Spec: 2.7."""


class RawClient:
    """A client with one session, which takes `window` frames; over TLS if the port is a TlsPort.

    `properties`: of its open.

    `seen`: frames that came, by the code of their performative.

    Nothing is answered by itself, and nothing is held back (`wait_for_window` is for that). Raises BenchError when an
    answer does not come within TIMEOUT_S.
    """

    def __init__(
        self, port: int, name: str, window: int = 2**31 - 1, properties: Mapping[Symbol, object] | None = None
    ) -> None:
        self.seen: Counter[int] = Counter()
        self._rest = b""
        self._flow = b""
        """The last flow of the router."""
        self._socket = connect(port, TIMEOUT_S)
        opening = frames.open_(container_id=name, max_frame_size=65536, channel_max=65535, properties=properties)
        self.send(frames.AMQP + opening + frames.begin(incoming_window=window, handle_max=65535))
        self.wait(BEGIN, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """All of it, in one write where the socket takes it."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise BenchError(f"the router took no more: {error}") from None

    def beat(self) -> None:
        """An empty frame, so that the router does not take us for lost."""
        self.send(frames.EMPTY)

    def read(self) -> bool:
        """Count what is there, or comes next; False at the end of the stream."""
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError as error:
            raise BenchError(f"the router said no more: {error}") from None
        data = self._rest + data if self._rest else data
        pos = 0
        while len(data) - pos >= 8:
            size = 8 if data[pos : pos + 4] == b"AMQP" else int.from_bytes(data[pos : pos + 4], "big")
            if len(data) - pos < size:
                break
            if size > 10 and data[pos + 9] == 0x53:
                self.seen[data[pos + 10]] += 1
                if data[pos + 10] == FLOW:
                    self._flow = data[pos : pos + size]
            pos += size
        finished = len(data) == len(self._rest)
        self._rest = data[pos:]
        return not finished

    def wait(self, code: int, count: int) -> None:
        """Until so many frames of a kind have come since the beginning."""
        while self.seen[code] < count:
            if not self.read():
                raise BenchError(f"the router ended the connection after {dict(self.seen)}")

    def wait_for_window(self, transfers: int, deliveries: int) -> None:
        """Until the router's last flow allows so many transfers in the session, and deliveries on its only link, since
        they began: a router that holds messages announces a smaller window. Spec: 2.5.6, 2.6.7.
        """
        while True:
            if self._flow:
                flow = decode_performative(self._flow, 4 * self._flow[4], len(self._flow))[0]
                assert isinstance(flow, Flow)
                window = (flow.next_incoming_id or 0) + flow.incoming_window
                credit = (flow.delivery_count or 0) + (flow.link_credit or 0)
                if window >= transfers and credit >= deliveries:
                    return
            if not self.read():
                raise BenchError(f"the router ended the connection after {dict(self.seen)}")

    def wait_closed(self) -> float:
        """Until the router has answered our close; the monotonic time."""
        self.wait(CLOSE, 1)
        return time.monotonic()
