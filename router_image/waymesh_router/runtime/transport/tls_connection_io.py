"""The byte path of a connection over TLS: socket → OpenSSL → engine → OpenSSL → socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cython

from waymesh_router.runtime.transport.connection_io import ConnectionIO, Owner
from waymesh_router.runtime.transport.receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from waymesh_amqp.connection import Connection
    from waymesh_router.runtime.tls.sockets import TlsSocket

WHOLE = cython.declare(cython.Py_ssize_t, 1 << 40)
TOGETHER = cython.declare(cython.int, 4)
"""Records that are written together to a socket that has room. To a full one, they are written one by one: urgent
frames cannot overtake them."""


class TlsConnectionIO(ConnectionIO):
    """A connection over TLS."""

    def __init__(self, owner: Owner, sock: TlsSocket, conn: Connection, buffer: ReceiveBuffer) -> None:
        super().__init__(owner, sock, conn, buffer)
        self.tls = sock
        self.more = sock.more  # the peer did not wait for the end of the handshake
        if self.more:
            self.queue()

    def receive(self, start: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Read once and decrypt, as `ConnectionIO.receive`. Records that are left count as input that waits."""
        count: cython.Py_ssize_t = self.tls.receive(self.buffer, start, WHOLE)
        self.more = self.tls.more
        return count

    def send(self, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Encrypt and write, as `ConnectionIO.send`."""
        return self.tls.encrypt(self.conn, size, 1 if self.blocked or self.portion < WHOLE else TOGETHER)
