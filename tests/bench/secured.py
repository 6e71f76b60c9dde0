"""Connections of the bench's clients to a router, over TCP or over TLS: the port says which.

TLS is done in memory, by large reads and writes, so that a client costs little beside the router; and one thread may
read while another one writes, which an `ssl.SSLSocket` does not allow.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import ssl
import threading
from types import TracebackType
from typing import Final, Self

from tests.bench.errors import BenchError

READ_BYTES: Final = 1 << 18
_SCHEME: Final = "tls:"


class TlsPort(int):
    """The port of a listener where clients speak TLS. `str` gives its number, as in a configuration."""


def port_text(port: int) -> str:
    """A port as a word of a command line; `port_of` is the way back."""
    return f"{_SCHEME if isinstance(port, TlsPort) else ''}{port}"


def port_of(text: str) -> int:
    """The port that `port_text` wrote."""
    return TlsPort(text.removeprefix(_SCHEME)) if text.startswith(_SCHEME) else int(text)


@functools.cache
def trusting() -> ssl.SSLContext:
    """For clients that do not look at certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class TlsStream:
    """A client's TLS connection, with the methods of a socket that the bench uses. Raises OSError as a socket does."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        """The handshake takes place here; the socket is closed if it fails."""
        self._socket = plain
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._using = threading.Lock()
        self._sending = threading.Lock()
        try:
            self._shake()
        except BaseException:
            plain.close()
            raise

    def _shake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._socket.sendall(self._out.read())
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise ConnectionResetError("the router ended the handshake") from None
                self._in.write(data)
            else:
                self._socket.sendall(self._out.read())
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def sendall(self, data: bytes) -> None:
        """As `socket.sendall`."""
        with self._sending:  # records leave in the order of their numbers
            with self._using:
                self._tls.write(data)
                octets = self._out.read()
            self._socket.sendall(octets)

    def recv(self, size: int) -> bytes:
        """As `socket.recv`: at least an octet, or none at the end of the stream."""
        while True:
            with self._using, contextlib.suppress(ssl.SSLWantReadError):
                try:
                    return self._tls.read(size)
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return b""
            octets = self._socket.recv(READ_BYTES)
            if not octets:
                return b""
            with self._using:
                self._in.write(octets)

    def settimeout(self, seconds: float) -> None:
        """As `socket.settimeout`."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Close the socket, without an alert."""
        self._socket.close()


Stream = socket.socket | TlsStream


def connect(port: int, timeout_s: float) -> Stream:
    """A connection to a router here. Raises OSError."""
    plain = socket.create_connection(("127.0.0.1", int(port)), timeout_s)  # takes no subclass of int
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if not isinstance(port, TlsPort):
        return plain
    return TlsStream(plain, trusting())


def read_until(stream: Stream, end: bytes) -> bytes:
    """What comes, up to and with these octets, and what came with them. Raises BenchError at the end of the stream."""
    found = b""
    while end not in found:
        data = stream.recv(READ_BYTES)
        if not data:
            raise BenchError(f"the router ended the connection after {found[:200]!r}")
        found += data
    return found
