"""Closes a transport so that the peer receives the last bytes."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable

from waymesh_router.runtime.loop import Loop

LINGER_S = 2.0
"""How long a closed connection's socket waits for the peer to read the last bytes and to close its end."""


class Linger:
    """A socket after its last write: its end is sent, its input discarded until the peer closes or the time is up."""

    def __init__(self, loop: Loop, sock: socket.socket, ended: Callable[[], None] = lambda: None) -> None:
        """`ended` is called when the socket is closed; this can happen at once."""
        self._loop = loop
        self._sock = sock
        self._ended = ended
        self._timer = loop.call_later(LINGER_S, self._end)
        with contextlib.suppress(OSError, ValueError):
            if isinstance(sock, ssl.SSLSocket):
                sock.unwrap()  # sends close_notify; does not wait for the peer's
        try:
            sock.shutdown(socket.SHUT_WR)
            loop.register(sock.fileno(), self)
        except OSError:  # the peer closed first
            self._end()

    def on_event(self, mask: int) -> None:
        """Input, or the end of the stream."""
        try:
            while self._sock.recv(65536):
                pass
        except BlockingIOError:
            return
        except OSError:
            pass
        self._end()

    def abandon(self) -> None:
        """An internal error: close at once."""
        self._end()

    def _end(self) -> None:
        self._timer.cancel()
        self._loop.unregister(self._sock.fileno())
        self._sock.close()
        self._ended()
