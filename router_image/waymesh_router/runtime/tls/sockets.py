"""TLS on a non-blocking socket, with a limit for the work that a peer can cause in one read."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
from typing import Any

RECORD_HEADER = 5
"""Bytes of a record's header: type, version, and length of the rest."""
RECORDS_PER_READ = 64
"""Maximum number of records without data in one read: about 1 ms of key updates."""
MAX_WITHOUT_DATA = 1024
"""Maximum number of consecutive records without data: a normal peer seldom sends session tickets or key updates."""
MAX_UNSENT = 65536
"""Maximum number of unsent bytes that OpenSSL produced, for a peer that sends but does not read."""


class TlsSocket:
    """A TLS connection on a non-blocking socket.

    An `ssl.SSLSocket` handles all records without data that have arrived, and those that arrive meanwhile, in one read:
    a client that keeps sending key updates would block the router. Here OpenSSL reads one record at a time from memory.
    Only a record and the next header are read from the socket, so epoll reports the rest.
    """

    def __init__(self, context: ssl.SSLContext, sock: socket.socket, *, server: bool, host: str | None = None) -> None:
        """`host`: the server name that a client requests and verifies. Raises OSError."""
        self._socket = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=server, server_hostname=host)
        self._header = b""
        self._left = 0  # bytes of the current record that have not arrived
        self._without_data = 0  # complete records since the last data
        self._unsent = b""
        self._offered = 0  # bytes of the caller in `_unsent`; the caller presents them again

    # ---- the interface of sockets
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
        """Read the data of a record; 0 at the end. Raises OSError, and SSLWantReadError, also after RECORDS_PER_READ
        records without data, so that others are served."""
        for _ in range(RECORDS_PER_READ):
            try:
                count = self.tls.read(len(view), view)
            except ssl.SSLWantReadError:
                self._answer()
                self._receive()
                if self._without_data > MAX_WITHOUT_DATA:
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
        """Write a record. Raises SSLWantWriteError if the socket is full: the same bytes must be presented again then,
        and more may follow."""
        if not self._offered:
            self._flush()
            self._offered = self.tls.write(data)
        self._flush()
        count, self._offered = self._offered, 0
        return count

    # ---- TLS
    def do_handshake(self) -> None:
        """Continue the handshake. Raises SSLWantReadError, SSLWantWriteError and OSError."""
        for _ in range(RECORDS_PER_READ):
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
        """Send close_notify, if the socket accepts it at once; returns the plain socket."""
        with contextlib.suppress(OSError, ValueError):
            self.tls.unwrap()
        with contextlib.suppress(OSError):  # the peer may have disconnected
            self._flush()
        return self._socket

    def _receive(self) -> None:
        """Pass the rest of a record and the header of the next one to OpenSSL. Raises SSLWantReadError, OSError."""
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
        """Write OpenSSL's output, as far as the socket accepts it now. Raises OSError if too much is unsent."""
        with contextlib.suppress(ssl.SSLWantWriteError):
            self._flush()
        if len(self._unsent) > MAX_UNSENT:
            raise OSError(errno.ENOBUFS, "the peer does not read TLS answers")

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
