"""An HTTP connection with one request and its answer. Then it is closed, or carries AMQP in a WebSocket.

Answers are created in the loop's thread, so that an answered probe shows that the loop is running.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from waymesh_router.runtime.http.message import Answer, BadRequest, Exchange, Request
from waymesh_router.runtime.loop import CLOSED, EPOLLIN, EPOLLOUT, Loop, Timer
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport
from waymesh_router.runtime.transport.linger import Lingering

if TYPE_CHECKING:
    from waymesh_router.runtime.http.web_socket import WebSocketStream

READ_BYTES = 16384
FILE_BYTES = 65536
"""Maximum number of bytes of a file that are read and written at once."""
WRITES_PER_TURN = 16
"""Maximum number of writes in one turn of the event loop: a client that loads a large file must not delay others."""
ANSWER_S = 60.0
"""Time limit for sending the answer."""
_NOT_READY = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

Respond = Callable[["HttpConnection", Request], "Answer | None"]
"""The answer to a request. None: `answer_later` of the connection will be called, while it `waits`."""


class HttpConnection:
    """An accepted transport (plain or TLS, after the handshake) on which one request is answered."""

    def __init__(
        self,
        loop: Loop,
        lingering: Lingering,
        sock: Transport,
        limit_s: float,
        respond: Respond,
        ended: Callable[[HttpConnection, WebSocketStream | None], None],
    ) -> None:
        """`limit_s`: for the request to arrive, may be inf. `ended(self, stream)` is called once, when this object no
        longer serves the connection; with a stream, the socket stays open and carries AMQP in a WebSocket."""
        self._loop = loop
        self._lingering = lingering
        self._sock = sock
        self._respond = respond
        self._ended = ended
        self._exchange = Exchange()
        self._answer: Answer | None = None
        self._out = b""
        self._file: BinaryIO | None = None
        self._left = 0
        self._received = False
        self.waits = False
        """The answer to the request is awaited."""
        self.refused = ""
        """Why the client was not served, "" if it was."""
        self.failed_login, self.user = False, ""
        self._timer: Timer | None = loop.call_later(limit_s, self._expire) if limit_s < math.inf else None
        loop.register(sock.fileno(), self, EPOLLIN, low_priority=True)
        self._read_kept()  # the client may have sent the request with the end of its handshake

    def take_content(self) -> None:
        """Requests for the REST API may have content."""
        self._exchange.takes_content = True

    def on_event(self, mask: int) -> None:
        """Continue to read the request or to write the answer."""
        if self.waits:  # input is ignored, also what `_read_kept` has asked for before
            if mask & CLOSED:
                self.close("closed by the peer")
            return
        try:
            if self._answer is None:
                self._read()
            if self._answer is not None:
                self._write(self._answer)
        except _NOT_READY:
            self._read_kept()
        except OSError as error:
            self.close(error.strerror or str(error))

    def _read_kept(self) -> None:
        """Read again soon if input is left that epoll does not report."""
        if isinstance(self._sock, TlsSocket) and self._sock.more:
            self._loop.again(self._sock.fileno())

    def close(self, reason: str = "") -> None:
        """Close the socket at once. `reason` becomes the value of `refused`, unless there is an answer."""
        self.waits = False
        if self._answer is None:
            self.refused = reason
        self._release()
        self._sock.close()
        self._ended(self, None)

    def abandon(self) -> None:
        """An internal error: close at once."""
        self.close("internal error")

    def _expire(self) -> None:
        self.close("no request arrived in time")

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._file is not None:
            self._file.close()
        self._loop.unregister(self._sock.fileno())

    def _read(self) -> None:
        while self._answer is None:
            data = self._sock.recv(READ_BYTES)
            if not data:  # a TCP probe, or a browser that opens connections in advance, sends nothing
                self.close("closed by the peer" if self._received else "")
                return
            self._received = True
            try:
                request = self._exchange.receive(data)
            except BadRequest as error:
                self._begin(error.answer)
            else:
                if request is not None and not self._answered(request):
                    return

    def _answered(self, request: Request) -> bool:
        self.waits = True
        answer = self._respond(self, request)
        if answer is None:
            self._loop.modify(self._sock.fileno(), 0)
            return False
        self.waits = False
        self._begin(answer)
        return True

    def answer_later(self, answer: Answer) -> None:
        """The answer is there."""
        if self.waits:
            self.waits = False
            self._begin(answer)
            self._write_later()

    def _begin(self, answer: Answer) -> None:
        self._answer, self._file, self._left = answer, answer.file, answer.size
        self.refused, self.failed_login, self.user = answer.refused, answer.failed_login, answer.user
        self._out = self._exchange.encode(answer)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(ANSWER_S, self.close)

    def _write(self, answer: Answer) -> None:
        for _ in range(WRITES_PER_TURN):
            if not self._out and not self._read_file():
                break
            try:
                count = self._sock.send(self._out)
            except _NOT_READY:
                self._write_later()
                return
            self._out = self._out[count:]
        else:
            self._write_later()
            return
        self._release()
        if answer.stream is None:
            self._lingering.close(self._sock)
        self._ended(self, answer.stream)

    def _write_later(self) -> None:
        self._loop.modify(self._sock.fileno(), EPOLLOUT)  # further input of the client is ignored

    def _read_file(self) -> bool:
        """Read the next bytes of the file. Raises OSError if it has become shorter than the answer announced."""
        if self._file is None or not self._left:
            return False
        self._out = self._file.read(min(FILE_BYTES, self._left))
        if not self._out:
            raise OSError("the file was truncated")
        self._left -= len(self._out)
        return True
