"""Updates of TLS 1.3 keys: a client that sends many goes on, one that sends nothing else is ended."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.interop.hostile import exchange_message
from tests.interop.raw_client import DEADLINE_S, SASL
from tests.kit import frames
from tests.kit.certificates import Authority
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_router.runtime.tls.sockets import MAX_WITHOUT_DATA

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

UPDATES = 1000
NOT_REQUESTED, REQUESTED = 0, 1


class TlsLibrary:
    """The functions of OpenSSL that Python's ssl lacks."""

    def __init__(self) -> None:
        name = ctypes.util.find_library("ssl")
        assert name, "libssl is not installed"
        library = ctypes.CDLL(name)
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.method = library.TLS_client_method
        self.new_context, self.free_context = library.SSL_CTX_new, library.SSL_CTX_free
        self.new, self.free, self.set_fd = library.SSL_new, library.SSL_free, library.SSL_set_fd
        self.connect, self.shake = library.SSL_connect, library.SSL_do_handshake
        self.key_update = library.SSL_key_update
        self.write, self.read = library.SSL_write, library.SSL_read
        for function in (self.method, self.new_context, self.new):
            function.restype = pointer
        for function in (self.new_context, self.free_context, self.new, self.free, self.connect, self.shake):
            function.argtypes = [pointer]
        self.set_fd.argtypes = self.key_update.argtypes = [pointer, number]
        self.write.argtypes = self.read.argtypes = [pointer, ctypes.c_char_p, number]


class TlsClient:
    """A TLS connection that can update its keys."""

    def __init__(self, library: TlsLibrary, handle: int) -> None:
        self._library, self._handle = library, handle

    def update_keys(self, kind: int) -> None:
        assert self._library.key_update(self._handle, kind) == 1
        if self._library.shake(self._handle) != 1:
            raise ConnectionError

    def send(self, data: bytes) -> None:
        assert self._library.write(self._handle, data, len(data)) == len(data)

    def receive(self, count: int) -> bytes:
        buffer = ctypes.create_string_buffer(count)
        got = self._library.read(self._handle, buffer, count)
        assert got > 0, "the router sends nothing, or closed the connection"
        return buffer.raw[:got]


@contextmanager
def connected(port: int) -> Iterator[TlsClient]:
    library = TlsLibrary()
    with closing(socket.create_connection(("127.0.0.1", port))) as sock:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # a time-out of Python's would make it non-blocking
            sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", int(DEADLINE_S), 0))
        context = library.new_context(library.method())
        handle = library.new(context)
        try:
            assert library.set_fd(handle, sock.fileno()) == 1
            assert library.connect(handle) == 1
            yield TlsClient(library, handle)
        finally:
            library.free(handle)
            library.free_context(context)


@pytest.fixture
def router(start_router: StartRouter, tmp_path: Path) -> RouterProcess:
    """With a listener `tls` on its last port."""
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"})
    port = free_port()
    text = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key)
    text += section("listener", name="tls", host="127.0.0.1", port=port, sslProfile="p", requireSsl=True)
    started = start_router(extra=text)
    started.ports.append(port)
    started.wait_listening()
    return started


KINDS = pytest.mark.parametrize("kind", [NOT_REQUESTED, REQUESTED], ids=["own keys", "keys of both"])


@KINDS
def test_a_connection_with_many_key_updates_goes_on(router: RouterProcess, kind: int) -> None:
    with connected(router.ports[-1]) as client:
        for _ in range(UPDATES):
            client.update_keys(kind)
        client.send(SASL)
        assert client.receive(len(SASL)) == SASL
        exchange_message(router.port)


@KINDS
def test_a_client_that_only_updates_its_keys_is_ended(router: RouterProcess, kind: int) -> None:
    with connected(router.ports[-1]) as client, contextlib.suppress(ConnectionError):
        client.send(frames.AMQP + frames.open_())
        for _ in range(100 * MAX_WITHOUT_DATA):
            client.update_keys(kind)
        pytest.fail("all were taken")
    wait_until(lambda: "too many TLS records without data" in router.log, what="the reason in the log")
    exchange_message(router.port)
