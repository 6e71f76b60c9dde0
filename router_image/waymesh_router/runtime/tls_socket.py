"""TLS on a non-blocking socket, with a bound on the work that a peer can cause in one read."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from typing import Any

RECORD_HEADER = 5
"""Octets of a record's header: type, version, length of the rest."""
RECORDS_A_READ = 64
"""Records without data in one read: about a millisecond of key updates."""
MOST_WITHOUT_DATA = 1024
"""Records without data one after the other: a peer sends a session ticket or a key update now and then."""
MOST_UNSENT = 65536
"""Octets that the peer does not take while it sends what needs answers."""


class TlsSocket:
    """A TLS connection on a non-blocking socket.

    An `ssl.SSLSocket` handles all records without data that have arrived, and those that arrive meanwhile, in one read:
    a client that sends key updates would keep the router from all others. Here OpenSSL gets one record after the other
    from memory. No more is taken from the socket than a record and the next header, so the rest is reported by epoll.
    """

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, *, server: bool, host: str | None = None) -> None:
        """`host`: as which a client asks for the server. Raises OSError."""
        self._socket = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=server, server_hostname=host)
        self._header = b""
        self._left = 0  # octets of the current record that have not arrived
        self._without_data = 0  # whole records since the last data
        self._unsent = b""
        self._offered = 0  # octets of the caller in `_unsent`; it presents them again

    # ---- what sockets have
    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def shutdown(self, how: int) -> None:
        self._socket.shutdown(how)

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        return self._socket.getsockopt(level, option, size)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self._socket.setsockopt(level, option, value)

    def recv_into(self, view: memoryview) -> int:
        """Read the data of a record; 0 at the end. Raises SSLWantReadError, also where it is only time to serve others,
        and OSError."""
        for _ in range(RECORDS_A_READ):
            try:
                count = self.tls.read(len(view), view)
            except ssl.SSLWantReadError:
                self._answer()
                self._receive()
                if self._without_data > MOST_WITHOUT_DATA:
                    raise OSError(errno.EPROTO, "too many TLS records without data") from None
            except ssl.SSLEOFError:
                return 0
            except ssl.SSLError:
                self._answer()
                raise
            else:
                self._without_data = 0
                return int(count)
        raise ssl.SSLWantReadError

    def recv(self, size: int) -> bytes:
        """Like `recv_into`."""
        data = bytearray(size)
        return bytes(data[: self.recv_into(memoryview(data))])

    def send(self, data: Any) -> int:
        """Write a record. Raises SSLWantWriteError where the socket is full; the same octets must be presented again
        then, and more may follow."""
        if not self._offered:
            self._flush()
            self._offered = self.tls.write(data)
        self._flush()
        count, self._offered = self._offered, 0
        return count

    # ---- TLS
    def do_handshake(self) -> None:
        """Continue the handshake. Raises SSLWantReadError, SSLWantWriteError and OSError."""
        for _ in range(RECORDS_A_READ):
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
            except ssl.SSLError:
                self._answer()
                raise
            else:
                self._flush()
                return
        raise ssl.SSLWantReadError

    def end(self) -> socket.socket:
        """Tell the peer that nothing follows, if the socket takes it at once; returns the plain socket."""
        with contextlib.suppress(OSError, ValueError):
            self.tls.unwrap()
        with contextlib.suppress(OSError):  # the peer may be gone
            self._flush()
        return self._socket

    def _receive(self) -> None:
        """Give OpenSSL the rest of a record and the header of the next one. Raises SSLWantReadError, OSError."""
        try:
            data = self._socket.recv(self._left + RECORD_HEADER - len(self._header))
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        if not data:
            self._in.write_eof()
            return
        self._in.write(data)
        part = min(self._left, len(data))
        self._left -= part
        self._without_data += part > 0 and self._left == 0
        self._header += data[part:]
        if len(self._header) == RECORD_HEADER:
            self._left, self._header = int.from_bytes(self._header[3:]), b""

    def _answer(self) -> None:
        """Write what OpenSSL has for the peer, as far as the socket takes it now. Raises OSError if it is too much."""
        with contextlib.suppress(ssl.SSLWantWriteError):
            self._flush()
        if len(self._unsent) > MOST_UNSENT:
            raise OSError(errno.ENOBUFS, "the peer does not read answers of TLS")

    def _flush(self) -> None:
        if self._out.pending:
            self._unsent += self._out.read()
        while self._unsent:
            try:
                count = self._socket.send(self._unsent)
            except BlockingIOError:
                raise ssl.SSLWantWriteError from None
            self._unsent = self._unsent[count:]


Transport = socket.socket | TlsSocket
"""The socket of a connection, plain or with TLS."""
