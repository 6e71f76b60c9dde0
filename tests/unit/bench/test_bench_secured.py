"""Connections of the bench over TLS, beside a server of Python's."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.bench.secured import TlsPort, TlsStream, connect, port_of, port_text
from tests.kit.certificates import Authority

pytestmark = pytest.mark.engine_independent

WAIT_S = 30.0


@pytest.fixture
def echoing(tmp_path: Path) -> Iterator[TlsPort]:
    """The port of a server that answers what it gets, and ends the connection after an `end`."""
    pair = Authority(tmp_path).issue("server", {"CN": "localhost"})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            with suppress(OSError), closing(context.wrap_socket(server.accept()[0], server_side=True)) as each:
                while data := each.recv(1 << 14):
                    if data == b"end":
                        return
                    each.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield TlsPort(server.getsockname()[1])
        thread.join(WAIT_S)


def test_what_is_sent_comes_back_until_the_server_ends_the_connection(echoing: TlsPort) -> None:
    with connect(echoing, WAIT_S) as stream:
        assert isinstance(stream, TlsStream)
        sent = bytes(range(256)) * 400
        writing = threading.Thread(target=stream.sendall, args=(sent,))
        writing.start()
        got = b""
        while len(got) < len(sent):
            got += stream.recv(1 << 16)
        writing.join()
        assert got == sent
        stream.sendall(b"end")
        assert stream.recv(1) == b""


def test_a_server_without_tls_fails_the_handshake() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].close())
        thread.start()
        with pytest.raises(ConnectionError):
            connect(TlsPort(server.getsockname()[1]), WAIT_S)
        thread.join(WAIT_S)


@pytest.mark.parametrize("port", [5672, TlsPort(5671)])
def test_a_port_survives_a_command_line(port: int) -> None:
    read = port_of(port_text(port))
    assert read == port
    assert type(read) is type(port)
    assert f"{read}" == f"{int(port)}"
