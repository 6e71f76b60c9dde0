"""Listeners, connectors and connections on real loopback sockets, with a fake router and engine."""

from __future__ import annotations

import os
import resource
import socket
import struct
import threading

import pytest

from tests.kit.ports import free_port
from tests.kit.waiting import DEADLINE_S, wait_until
from tests.unit.runtime.fakes import Running, running
from waymesh_router.runtime.errors import HostError


def dial(port: int, family: socket.AddressFamily = socket.AF_INET) -> socket.socket:
    sock = socket.socket(family)
    sock.settimeout(DEADLINE_S)
    sock.connect(("127.0.0.1" if family == socket.AF_INET else "::1", port))
    return sock


def read_line(sock: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        part = sock.recv(1)
        if not part:
            break
        data += part
    return data


def read_all(sock: socket.socket) -> bytes:
    data = b""
    while part := sock.recv(65536):
        data += part
    return data


def test_echo_and_peer(host: Running) -> None:
    sock = dial(host.listen())
    sock.sendall(b"hello\n")
    assert read_line(sock) == b"hello\n"
    name, conn = host.router.connections[0]
    assert name == "L"
    assert conn.peer.host == f"127.0.0.1:{sock.getsockname()[1]}"
    assert not conn.peer.tls
    sock.close()
    wait_until(lambda: host.router.losses)
    assert host.router.losses == [(conn, "closed by the peer")]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
def test_incomplete_frames_are_kept(host: Running, chunk: int) -> None:
    sock = dial(host.listen())
    text = b"".join(b"line %d of several\n" % number for number in range(20))
    for start in range(0, len(text), chunk):
        sock.sendall(text[start : start + chunk])
    received = b""
    while len(received) < len(text):
        received += sock.recv(65536)
    assert received == text
    sock.close()


def test_frame_longer_than_the_buffer(host: Running) -> None:
    sock = dial(host.listen())
    frame = os.urandom(3_000_000).replace(b"\n", b"x") + b"\n"
    sock.sendall(frame + b"bye\n")
    assert read_all(sock) == frame + b"bye\n"


def test_slow_reader_gets_everything_and_disturbs_nobody(host: Running) -> None:
    port = host.listen()
    slow, other = dial(port), dial(port)
    lines = (b"x" * 999_999 + b"\n") * 20 + b"bye\n"  # more than the socket buffers and the router's output hold
    sending = threading.Thread(target=slow.sendall, args=(lines,))
    sending.start()
    wait_until(lambda: any(conn.unread for _, conn in host.router.connections))
    other.sendall(b"ping\n")
    assert read_line(other) == b"ping\n"
    assert read_all(slow) == lines
    sending.join(DEADLINE_S)
    other.close()


def test_orderly_end_keeps_the_last_bytes(host: Running) -> None:
    """Unread input must not make the kernel reset the connection."""
    sock = dial(host.listen())
    sock.sendall(b"bye\n" + b"never read" * 10_000)
    assert read_all(sock) == b"bye\n"
    wait_until(lambda: host.router.losses)
    sock.close()


def test_a_crash_ends_one_connection_only(host: Running) -> None:
    port = host.listen()
    bad, good = dial(port), dial(port)
    bad.sendall(b"crash\n")
    with bad:
        assert bad.recv(100) == b""
    good.sendall(b"still here\n")
    assert read_line(good) == b"still here\n"
    assert host.host.errors == 1
    assert "RuntimeError: a bug" in host.log_text()
    assert "test_runtime" in host.log_text() or "fakes.py" in host.log_text()  # the traceback
    good.close()


def test_a_refused_connection_is_closed(host: Running) -> None:
    port = host.listen()
    host.router.refuse = True
    with dial(port) as sock:
        assert sock.recv(1) == b""
    assert host.call(lambda: host.host.errors) == 1


def test_reset_by_the_peer(host: Running) -> None:
    sock = dial(host.listen())
    sock.sendall(b"x\n")
    read_line(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    assert wait_until(lambda: host.router.losses)[0][1] == "Connection reset by peer"


def test_port_taken(host: Running) -> None:
    port = host.listen()
    with pytest.raises(HostError) as caught:
        host.listen(name="second", port=str(port))
    assert str(caught.value) == f"listener second: cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        ({"port": "70000"}, "listener L: port: 70000 is greater than 65535"),
        ({"port": "no-such-service"}, "listener L: port: unknown service 'no-such-service'"),
        ({"sslProfile": "p"}, "listener L: sslProfile: there is no sslProfile p"),
        ({"requireSsl": True}, "listener L: requireSsl: needs an sslProfile"),
        ({"requireEncryption": True}, "listener L: requireEncryption: needs an sslProfile"),
        ({"trustedCertsFile": "/ca"}, "listener L: trustedCertsFile: needs an sslProfile"),
    ],
)
def test_bad_listeners(host: Running, attrs: dict[str, object], text: str) -> None:
    with pytest.raises(HostError) as caught:
        host.listen(**attrs)
    assert str(caught.value) == text


def test_all_addresses_share_a_port(host: Running) -> None:
    port = host.listen(host="")
    for family in (socket.AF_INET, socket.AF_INET6):
        with dial(port, family) as sock:
            sock.sendall(b"x\n")
            assert read_line(sock) == b"x\n"
    assert host.router.connections[1][1].peer.host.startswith("::1:")


def test_connections_of_a_deleted_listener_go_on(host: Running) -> None:
    port = free_port()
    host.listen(port=str(port))
    with dial(port) as sock:
        sock.sendall(b"x\n")
        read_line(sock)
        host.call(host.host.unlisten, "L")
        with pytest.raises(ConnectionRefusedError):
            dial(port)
        sock.sendall(b"still\n")
        assert read_line(sock) == b"still\n"
        host.listen(port=str(port))  # free again


def test_connector_greets_and_talks(host: Running) -> None:
    host.router.greeting = b"AMQP\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(DEADLINE_S)
        port = server.getsockname()[1]
        host.connect(port)
        sock, _ = server.accept()
        assert read_line(sock) == b"AMQP\n"
        sock.sendall(b"x\n")
        assert read_line(sock) == b"x\n"
        assert host.router.connections[0][1].peer.host == f"127.0.0.1:{port}"
        sock.close()
        sock, _ = server.accept()  # it reconnects
        assert read_line(sock) == b"AMQP\n"
        host.call(host.host.disconnect, "C")
        assert read_line(sock) == b"closed: connector C was deleted\n"
        sock.close()


def test_connector_retries_until_somebody_listens(host: Running) -> None:
    port = free_port()
    host.connect(port)
    wait_until(lambda: len(host.router.failures) >= 3)
    assert host.router.failures[0] == ("C", f"Connection to 127.0.0.1:{port} failed: Connection refused")
    host.listen(port=str(port))
    wait_until(lambda: any(name == "C" for name, _ in host.router.connections))


def test_connector_resolves_names_and_tries_all_addresses(host: Running) -> None:
    """`localhost` may resolve to ::1 first, where nothing listens."""
    host.connect(host.listen(), host="localhost")
    wait_until(lambda: any(name == "C" for name, _ in host.router.connections))


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a..b", "x" * 64, "\N{SNOWMAN}" * 60])
def test_connector_with_an_unknown_name(host: Running, name: str) -> None:
    """Also with one that Python refuses to look up. A server may send such a name in its failover list."""
    host.connect(5672, host=name)
    wait_until(lambda: host.router.failures)
    assert host.router.failures[0][1].startswith(f"Connection to {name}:5672 failed: cannot resolve {name}: ")


def test_connector_rotates_over_failover_targets(host: Running) -> None:
    host.connect(free_port())
    host.call(host.host.set_failover, "C", [("127.0.0.1", host.listen())])
    wait_until(lambda: any(name == "C" for name, _ in host.router.connections))


def test_deleted_connector_stops_trying(host: Running) -> None:
    host.connect(free_port())
    wait_until(lambda: host.router.failures)
    host.call(host.host.disconnect, "C")
    count = len(host.router.failures)
    marker: list[int] = []
    host.call(host.loop.call_later, 0.5, lambda: marker.append(1))
    wait_until(lambda: marker)
    assert len(host.router.failures) == count


def test_out_of_descriptors_pauses_accepting(host: Running) -> None:
    port = host.listen()
    first = dial(port)
    first.sendall(b"x\n")
    read_line(first)
    second = socket.socket()
    second.settimeout(DEADLINE_S)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # 0, 1 and 2 are in use; a higher one may become free
    try:
        second.connect(("127.0.0.1", port))
        wait_until(lambda: "cannot accept: Too many open files" in host.log_text())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    second.sendall(b"late\n")
    assert read_line(second) == b"late\n"
    first.close()
    second.close()


def test_stop_tells_routers_and_hangs_up_on_clients() -> None:
    """Then all client libraries reconnect at once: docs/clients.md."""
    with running() as host:
        client = dial(host.listen())
        router = dial(host.listen(name="M", role="inter-router"))
        for sock in (client, router):
            sock.sendall(b"x\n")
            assert read_line(sock) == b"x\n"
    assert read_all(client) == b""
    assert read_all(router) == b"closed: the test is over\n"
    client.close()
    router.close()
