"""Starts of routers from files with errors: what opens, and what stays closed."""

from __future__ import annotations

import contextlib
import socket
import ssl
from pathlib import Path

import proton
import pytest

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.main import main
from waymesh_router.runtime.running import Running
from waymesh_router.runtime.transport.collisions import without_repeated_addresses
from waymesh_router.runtime.transport.listener import Listener
from waymesh_schema.config import ConfigError, read_config


def test_a_second_listener_on_one_address_is_an_error_and_the_first_keeps_working(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    text = section("listener", name="first", host="127.0.0.1", port=port)
    text += section("listener", name="second", host="127.0.0.1", port=port, saslMechanisms="PLAIN")
    error = "/t.conf:6: listener second: stays closed, because listener first has the same host and port"
    (tmp_path / "t.conf").write_text(text, encoding="utf-8")
    assert main(["--check", "-c", str(tmp_path / "t.conf")]) == 1
    assert capsys.readouterr().err == f"waymesh-router: {tmp_path}{error}\n"
    router = RouterProcess(tmp_path, "t", text, [port])
    router.start()
    try:
        with Client(router.url) as client:
            client.receiver("q")
        assert f"SERVER (error) {tmp_path}{error}" in router.log
    finally:
        assert router.stop() == 0


@pytest.mark.parametrize(
    ("first", "second", "closed"),
    [
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("", "127.0.0.1", True),
        ("[::]", "::1", True),
        ("::", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.2", False),
        ("a.example", "a.example", True),
    ],
)
def test_hosts_that_mean_one_address_are_the_same_host(
    first: str, second: str, closed: bool, tmp_path: Path
) -> None:
    """With the first listener open, the start would end at the second one, and its clients would be lost."""
    text = "".join(section("listener", name=f"l{k}", host=host, port=9) for k, host in enumerate((first, second)))
    (tmp_path / "t.conf").write_text(text, encoding="utf-8")
    kept, errors = without_repeated_addresses(read_config(tmp_path / "t.conf"))
    assert len([entry for entry in kept if entry.type.name == "listener"]) == (1 if closed else 2)
    assert len(errors) == closed


def test_no_listener_opens_if_there_is_an_error_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients would be accepted, and lost when the router exits."""
    opened: list[Listener] = []
    monkeypatch.setattr(Listener, "listen", opened.append)
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = section("listener", host="127.0.0.1", port=free_port())
        text += section("listener", name="taken", host="127.0.0.1", port=server.getsockname()[1])
        text += section("connector", name="c", failoverUrls="amqp://")
        (tmp_path / "t.conf").write_text(text, encoding="utf-8")
        running = Running(read_config(tmp_path / "t.conf"))
        with pytest.raises(ConfigError) as raised:
            running.start()
    assert [problem.line for problem in raised.value.problems] == [5, 10]
    assert opened == []


def test_compat_23_unknown_protocols_and_uid_formats(tmp_path: Path) -> None:
    """The listener of the first refuses every handshake; at that of the second, the whole subject is the user."""
    authority = Authority(tmp_path)
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost",))
    worker = authority.issue("worker", {"O": "Example", "CN": "worker"})
    good, unknown, whole = (free_port() for _ in range(3))
    files = {"certFile": pair.cert, "privateKeyFile": pair.key, "caCertFile": authority.cert}
    text = section("listener", name="good", host="127.0.0.1", port=good)
    text += section("sslProfile", name="p", protocols="SSLv23 TLSv1.2", **files)
    text += section("sslProfile", name="q", uidFormat="zz", **files)
    tls = {"host": "127.0.0.1", "requireSsl": True, "saslMechanisms": "EXTERNAL"}
    text += section("listener", name="l", port=unknown, sslProfile="p", **tls)
    text += section("listener", name="m", port=whole, sslProfile="q", **tls)
    router = RouterProcess(tmp_path, "A", text, [good, unknown, whole])
    router.start()
    try:
        context = ssl.create_default_context(cafile=str(authority.cert))
        context.load_cert_chain(worker.cert, worker.key)
        with socket.create_connection(("127.0.0.1", unknown)) as raw, pytest.raises(OSError):
            context.wrap_socket(raw, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", unknown)) as raw, contextlib.suppress(ConnectionError):
            raw.sendall(b"AMQP\x03\x01\x00\x00")  # without TLS
            assert raw.recv(8)[:4] != b"AMQP"
        domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
        domain.set_credentials(str(worker.cert), str(worker.key), None)
        domain.set_trusted_ca_db(str(authority.cert))
        domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
        with Client(f"amqps://localhost:{whole}", ssl_domain=domain), ManagementClient(router.url) as management:
            users = {row["user"] for row in management.query("connection")}
    finally:
        assert router.stop() == 0
    assert "O=Example,CN=worker" in users
    errors = [line.partition("SERVER (error) ")[2] for line in router.log.splitlines() if "SERVER (error)" in line]
    assert errors[:2] == [
        "sslProfile p: protocols: SSLv23 is not one of TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; every handshake is refused",
        "sslProfile q: uidFormat: 'zz': allowed codes are csloun125, each once; the whole subject is the user name",
    ]
