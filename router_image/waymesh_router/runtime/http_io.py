"""HTTP on a listener with `http: yes`: probes and metrics, served in the loop.

Only GET and HEAD of a few pages, one request per connection, as orchestrators and scrapers need. Pages are created in
the loop's thread, so a response shows that the loop is running.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus

from waymesh_router.pages import Page
from waymesh_router.runtime.linger import Linger
from waymesh_router.runtime.loop import EPOLLIN, EPOLLOUT, Loop

MAX_REQUEST_BYTES = 16384
REQUEST_S = 10.0
"""Time limit for request and response; then the connection is closed."""
HEAD_END = b"\r\n\r\n"

Pages = Callable[[str], Page]
"""Returns the page of a path."""


class HttpConnection:
    """An accepted transport (plain or TLS, after the handshake) on which one request is answered."""

    def __init__(self, loop: Loop, sock: socket.socket, pages: Pages, ended: Callable[[HttpConnection], None]) -> None:
        """`ended(self)` is called once, after the response or after a failure."""
        self._loop = loop
        self._sock = sock
        self._pages = pages
        self._ended = ended
        self._request = b""
        self._answer = b""
        self._timer = loop.call_later(REQUEST_S, self.close)
        loop.register(sock.fileno(), self, EPOLLIN)

    def on_event(self, mask: int) -> None:
        """Continue reading until the request is complete, or writing."""
        try:
            if not self._answer:
                self._read()
            if self._answer:
                self._write()
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self.close()

    def close(self) -> None:
        """Close the socket at once."""
        self._release()
        self._sock.close()

    def abandon(self) -> None:
        """An internal error: close at once."""
        self.close()

    def _release(self) -> None:
        self._timer.cancel()
        self._loop.unregister(self._sock.fileno())
        self._ended(self)

    def _read(self) -> None:
        while HEAD_END not in self._request:
            data = self._sock.recv(MAX_REQUEST_BYTES)
            if not data:
                self.close()
                return
            self._request += data
            if len(self._request) > MAX_REQUEST_BYTES:
                self._answer = answer(Page(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too long\n"))
                return
        self._answer = respond(self._request, self._pages)

    def _write(self) -> None:
        while self._answer:
            try:
                count = self._sock.send(self._answer)
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._loop.modify(self._sock.fileno(), EPOLLIN | EPOLLOUT)
                return
            self._answer = self._answer[count:]
        self._release()
        Linger(self._loop, self._sock)


def respond(request: bytes, pages: Pages) -> bytes:
    """The complete response to a request whose head is complete."""
    words = request.partition(b"\r\n")[0].decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return answer(Page(HTTPStatus.BAD_REQUEST, "not an HTTP/1.1 request\n"))
    method, target, _ = words
    if method not in ("GET", "HEAD"):
        return answer(Page(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not supported\n"), extra="Allow: GET, HEAD\r\n")
    return answer(pages(target.partition("?")[0]), body=method == "GET")


def answer(page: Page, *, body: bool = True, extra: str = "") -> bytes:
    """A page as an HTTP response; the connection is closed after it."""
    text = page.text.encode()
    head = (
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\n"
        f"Content-Type: {page.content_type}\r\nContent-Length: {len(text)}\r\n"
        f"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{extra}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (text if body else b"")
