"""Closes a transport in such a way that the peer receives the last bytes."""

from __future__ import annotations

import socket
from collections.abc import Callable

from waymesh_router.runtime.loop import Loop
from waymesh_router.runtime.tls.sockets import TlsSocket, Transport

LINGER_S = 2.0
"""How long a closed connection's socket waits for the peer to read the last bytes and to close its end."""
MOST = 1000
"""Maximum number of waiting sockets. Further ones are closed at once: peers that never close must not use up all
descriptors."""

READ_BYTES = 65536
READS_PER_TURN = 16


class Lingering:
    """The closed connections of a host. `count`: how many sockets wait."""

    def __init__(self, loop: Loop) -> None:
        self.count = 0
        self._loop = loop

    def close(self, sock: Transport) -> None:
        """Close a socket after its last write, after a time for its peer to read."""
        if self.count >= MOST:
            sock.close()
            return
        self.count += 1
        Linger(self._loop, sock, self._ended)

    def _ended(self) -> None:
        self.count -= 1


class Linger:
    """A socket after its last write: sends FIN, then discards input until the peer closes or LINGER_S is over."""

    def __init__(self, loop: Loop, sock: Transport, ended: Callable[[], None] = lambda: None) -> None:
        """`ended` is called when the socket is closed; this can happen at once."""
        self._loop = loop
        # Further input is discarded, so it need not be decrypted.
        self._sock = sock.end() if isinstance(sock, TlsSocket) else sock
        self._ended = ended
        self._timer = loop.call_later(LINGER_S, self._end)
        try:
            self._sock.shutdown(socket.SHUT_WR)
            loop.register(self._sock.fileno(), self, low_priority=True)
        except OSError:  # the peer closed first
            self._end()

    def on_event(self, mask: int) -> None:
        """Discard input, or handle the end of the stream. Reads per turn are limited, so that a peer that sends without
        pause does not block others."""
        try:
            for _ in range(READS_PER_TURN):
                if not self._sock.recv(READ_BYTES):
                    break
            else:
                return
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
