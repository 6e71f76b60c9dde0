"""TLS clients that do what Python's ssl cannot: they update their keys, and ask for another handshake."""

from __future__ import annotations

import ctypes
import ctypes.util
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tests.interop.raw_client import DEADLINE_S

TLS_1_2 = 0x0303
SET_MAX_VERSION = 124
"""SSL_CTRL_SET_MAX_PROTO_VERSION."""


class TlsLibrary:
    """The functions of OpenSSL that Python's ssl lacks."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("ssl")
        assert name, "libssl is not installed"
        library = ctypes.CDLL(name)
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.method = library.TLS_client_method
        self.new_context, self.free_context = library.SSL_CTX_new, library.SSL_CTX_free
        self.control = library.SSL_CTX_ctrl
        self.new, self.free, self.set_fd = library.SSL_new, library.SSL_free, library.SSL_set_fd
        self.connect, self.shake = library.SSL_connect, library.SSL_do_handshake
        self.key_update, self.renegotiate = library.SSL_key_update, library.SSL_renegotiate
        self.write, self.read = library.SSL_write, library.SSL_read
        for function in (self.method, self.new_context, self.new):
            function.restype = pointer
        for function in (
            self.new_context, self.free_context, self.new, self.free, self.connect, self.shake, self.renegotiate,
        ):  # fmt: skip
            function.argtypes = [pointer]
        self.set_fd.argtypes = self.key_update.argtypes = [pointer, number]
        self.control.argtypes = [pointer, number, ctypes.c_long, pointer]
        self.write.argtypes = self.read.argtypes = [pointer, ctypes.c_char_p, number]


class TlsClient:
    """A TLS connection."""

    def __init__(self, library: TlsLibrary, handle: int) -> None:
        self._library, self._handle = library, handle

    def update_keys(self, kind: int) -> None:
        assert self._library.key_update(self._handle, kind) == 1
        if self._library.shake(self._handle) != 1:
            raise ConnectionError

    def renegotiates(self) -> bool:
        """Ask for another handshake (TLS 1.2); whether the router takes part."""
        assert self._library.renegotiate(self._handle) == 1
        return bool(self._library.shake(self._handle) == 1)

    def send(self, data: bytes) -> None:
        assert self._library.write(self._handle, data, len(data)) == len(data)

    def receive(self, count: int) -> bytes:
        buffer = ctypes.create_string_buffer(count)
        got = self._library.read(self._handle, buffer, count)
        assert got > 0, "the router sends nothing, or closed the connection"
        return buffer.raw[:got]


@contextmanager
def connected(port: int, most: int = 0) -> Iterator[TlsClient]:
    """`most`: the highest version of TLS, 0 for what the library has."""
    library = TlsLibrary()
    with closing(socket.create_connection(("127.0.0.1", port))) as sock:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # a time-out of Python's would make it non-blocking
            sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(DEADLINE_S), 0))
        context = library.new_context(library.method())
        assert library.control(context, SET_MAX_VERSION, most, None) == 1
        handle = library.new(context)
        try:
            assert library.set_fd(handle, sock.fileno()) == 1
            assert library.connect(handle) == 1
            yield TlsClient(library, handle)
        finally:
            library.free(handle)
            library.free_context(context)
