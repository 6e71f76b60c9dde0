"""authServicePlugin: a service decides on SASL exchanges, names the users, and says what they may attach."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.auth_world import Start, World, running_service, starting
from tests.interop.raw_client import SASL, RawClient
from tests.interop.shared import fresh
from tests.interop.test_proton_management_read import Reader, drain
from tests.kit.auth_service import AuthServer, Link, rights
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, command, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Detach, SaslInit, SaslMechanisms, SaslOutcome, encode_frame
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

service = pytest.fixture(running_service)
start = pytest.fixture(starting)


def test_the_service_decides_and_names_the_user(start: Start, service: AuthServer) -> None:
    world = start(service.port, plugin={"realm": "shop"})
    with RawClient(world.guarded) as raw:
        assert raw.login("SCRAM-SHA-256", "alice", "secret").code == 0
        raw.open(sasl=False, container_id="scram")
        assert world.users()["scram"] == ("alice", "SCRAM-SHA-256")
    with Client(
        f"amqp://127.0.0.1:{world.guarded}", container_id="proton", user="alice", password="secret",
        allowed_mechs="PLAIN", allow_insecure_mechs=True,
    ):  # fmt: skip
        assert world.users()["proton"] == ("alice", "PLAIN")
    assert [init.hostname for init in service.inits] == ["shop", "shop"]
    opened = service.opens[0]
    assert opened.container_id == "A"
    assert opened.hostname == "127.0.0.1"
    assert opened.desired_capabilities == ["ADDRESS-AUTHZ"]
    assert isinstance(opened.properties, dict)
    assert opened.properties["product"] == "waymesh-router"
    assert "version" in opened.properties
    wait_until(lambda: service.links == 0)  # the connection ends with the exchange


def test_the_service_may_name_the_user_by_a_plain_string(start: Start, service: AuthServer) -> None:
    service.properties = {"authenticated-identity": "alice@shop"}
    world = start(service.port)
    with RawClient(world.guarded) as raw:
        assert raw.login("PLAIN", "alice", "secret").code == 0
        raw.open(sasl=False, container_id="plain")
        assert world.users()["plain"] == ("alice@shop", "PLAIN")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret")])
def test_who_is_refused_by_the_service_is_refused(
    start: Start, service: AuthServer, mechanism: str, user: str, password: str
) -> None:
    world = start(service.port)
    assert world.outcome(mechanism, user, password) == 1
    wait_until(lambda: service.links == 0)
    assert world.outcome(mechanism) == 0


def test_mechanisms_are_those_of_the_service_that_the_listener_allows(start: Start, service: AuthServer) -> None:
    service.mechanisms = ("EXTERNAL", "SCRAM-SHA-256", "PLAIN", "ANONYMOUS")
    world = start(service.port, allowInsecurePlain=False)
    assert world.offered() == {"SCRAM-SHA-256"}
    with RawClient(world.guarded) as raw:  # who asks for another one does not reach the service
        raw.send(SASL)
        raw.read(8)
        raw.put(SaslInit(mechanism="PLAIN", initial_response=b"\0alice\0secret"))
        assert raw.expect(SaslOutcome).code == 1
    assert service.inits == []
    with ManagementClient(world.router.url) as client:
        port = free_port()
        attrs = {"host": "127.0.0.1", "port": str(port), "saslPlugin": "service", "saslMechanisms": "ANONYMOUS X"}
        client.create("listener", attrs, name="any")
        world.guarded = port
        assert world.offered() == {"ANONYMOUS"}


def test_clients_without_sasl_do_not_pass(start: Start, service: AuthServer) -> None:
    world = start(service.port)
    with RawClient(world.guarded) as raw:
        raw.send(b"AMQP\x00\x01\x00\x00")
        assert raw.read_to_end() == SASL


def test_what_the_service_allows_is_what_a_client_may_attach(start: Start, service: AuthServer) -> None:
    service.properties = {"address-authz": rights(orders="send recv", **{"news.*": "recv"})}
    world = start(service.port)
    with RawClient(world.guarded) as raw:
        raw.login("PLAIN", "alice", "secret")
        raw.open(sasl=False)
        raw.begin()
        raw.attach_receiver("orders", credit=1)
        raw.attach_sender("orders")
        raw.attach_receiver("news.sport")
        raw.attach_sender(None)
        attaches: tuple[Callable[[], object], ...] = (
            lambda: raw.attach_sender("news.sport", wait_credit=False),
            lambda: raw.attach_receiver("other"),
            lambda: raw.attach_sender("$management", wait_credit=False),
        )
        for attach in attaches:
            attach()
            error = raw.expect(Detach).error
            assert error is not None
            assert error.condition == "amqp:unauthorized-access"
    service.properties = {"address-authz": {}}
    with RawClient(world.guarded) as raw:
        raw.login("PLAIN", "alice", "secret")
        raw.open(sasl=False)
        raw.begin()
        raw.attach_receiver("orders")
        assert raw.expect(Detach).error is not None
    service.properties = None
    with RawClient(world.guarded) as raw:
        raw.login("PLAIN", "alice", "secret")
        raw.open(sasl=False)
        raw.begin()
        raw.attach_receiver("anything", credit=1)
        raw.attach_sender("anything")


def test_what_the_service_allows_does_not_include_admin_status(start: Start, service: AuthServer) -> None:
    service.properties = {"address-authz": rights(**{"$management": "send"})}
    world = start(service.port, management="write")
    reader = Reader(
        f"amqp://127.0.0.1:{world.guarded}", user="alice", password="secret", allowed_mechs="PLAIN",
        allow_insecure_mechs=True,
    )  # fmt: skip
    with reader.client:
        request = {"operation": "UPDATE", "type": "connection", "identity": "1"}
        assert reader.ask("$management", request, {"adminStatus": "deleted"})[0] == 403
        assert reader.text == "adminStatus: policy does not allow this client to change it"
        assert reader.ask("$management", *drain("A"))[0] == 200  # all else is the right of the listener


def test_messages_of_anonymous_senders_go_only_where_the_service_allows(start: Start, service: AuthServer) -> None:
    service.properties = {"address-authz": rights(orders="send recv")}
    world = start(service.port)
    options: dict[str, Any] = {
        "user": "alice", "password": "secret", "allowed_mechs": "PLAIN", "allow_insecure_mechs": True,
    }  # fmt: skip
    with Client(f"amqp://127.0.0.1:{world.guarded}", **options) as client, Client(world.router.url) as free:
        good, bad = free.receiver("orders", 10), free.receiver("other", 10)
        sender = client.sender(None)
        for address in ("orders", "other", "orders"):
            sender.send(proton.Message(address=address, body=address))
        assert [good.next().message.body for _ in range(2)] == ["orders", "orders"]
        assert bad.arrived.empty()


def test_over_tls_with_its_own_profile(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("service", {"CN": "service"}, ("127.0.0.1",))
    (tmp_path / "foreign").mkdir()
    foreign = Authority(tmp_path / "foreign", "Foreign CA").issue("service", {"CN": "service"}, ("127.0.0.1",))
    good, bad = AuthServer(pair), AuthServer(foreign)
    try:
        extra = section("sslProfile", name="tls", caCertFile=authority.cert)
        world = start(good.port, extra, {"sslProfile": "tls"})
        assert world.outcome() == 0
        with ManagementClient(world.router.url) as client:
            client.create(
                "authServicePlugin", {"host": "127.0.0.1", "port": str(bad.port), "sslProfile": "tls"}, name="bad"
            )
            port = free_port()
            client.create("listener", {"host": "127.0.0.1", "port": str(port), "saslPlugin": "bad"}, name="other")
            with pytest.raises(ManagementError, match="authServicePlugin service"):
                client.delete("sslProfile", name="tls")
        world.guarded = port
        assert world.outcome("SCRAM-SHA-256") == -1
        assert bad.inits == []
    finally:
        good.close()
        bad.close()


def in_small_records(server: AuthServer, link: Link) -> None:
    """More records with an octet of the offer each than a turn of the router's loop handles, in one segment; then a
    whole exchange."""
    offer = bytearray(encode_frame(0, SaslMechanisms(sasl_server_mechanisms=["PLAIN"])))
    offer[8:8] = bytes(4 * 100)  # an extended header, which is ignored. Spec: 2.3.2
    offer[:5] = len(offer).to_bytes(4) + bytes([2 + 100])
    link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    link.read(8)
    for octet in SASL + offer:
        link.send(bytes([octet]))
    link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    assert link.frame().mechanism == "PLAIN"
    link.put(SaslOutcome(code=1))


def test_many_small_records_of_the_service_are_all_read(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    service = AuthServer(authority.issue("service", {"CN": "service"}, ("127.0.0.1",)), script=in_small_records)
    try:
        world = start(service.port, section("sslProfile", name="tls", caCertFile=authority.cert), {"sslProfile": "tls"})
        assert world.outcome("PLAIN") == 1
    finally:
        service.close()


def test_certificates_and_the_service_at_one_listener(start: Start, service: AuthServer, tmp_path: Path) -> None:
    """Mechanisms that the router has itself never go to the service, and work while it is away."""
    authority = Authority(tmp_path)
    pair = authority.issue("server", {"CN": "localhost"}, ("127.0.0.1",))
    worker = authority.issue("worker", {"CN": "worker"})
    profile = section(
        "sslProfile", name="tls", caCertFile=authority.cert, certFile=pair.cert, privateKeyFile=pair.key, uidFormat="n"
    )
    world = start(service.port, profile, sslProfile="tls", requireSsl=True)
    context = ssl.create_default_context(cafile=str(authority.cert))
    with RawClient(world.guarded, context) as raw:
        assert raw.login("PLAIN", "alice", "secret").code == 0
    context.load_cert_chain(worker.cert, worker.key)
    for _ in range(2):
        with RawClient(world.guarded, context) as raw:
            raw.send(SASL)
            raw.read(8)
            raw.expect(SaslMechanisms)
            raw.put(SaslInit(mechanism="EXTERNAL", initial_response=b""))
            assert raw.expect(SaslOutcome).code == 0
            container = fresh()
            raw.open(sasl=False, container_id=container)
            assert world.users()[container] == ("worker", "EXTERNAL")
        service.close()
    assert [init.mechanism for init in service.inits] == ["PLAIN"]


def test_management_of_plugins(start: Start, service: AuthServer) -> None:
    world = start(service.port)
    with ManagementClient(world.router.url) as client:
        client.create("authServicePlugin", {"authService": f"127.0.0.1:{service.port}"}, name="old")
        rows = {row["name"]: row["host"] for row in client.query("authServicePlugin", ["name", "host"])}
        assert rows["service"] == "127.0.0.1"
        with pytest.raises(ManagementError, match="in use: listener guarded"):
            client.delete("authServicePlugin", name="service")
        client.create(
            "listener", {"host": "127.0.0.1", "port": "0", "saslPlugin": "old"}, name="of the old one"
        )
        client.delete("listener", name="of the old one")
        client.delete("authServicePlugin", name="old")
        wrong: list[tuple[dict[str, str], str]] = [
            ({"saslPlugin": "old"}, "there is no authServicePlugin old"),
            ({"saslPlugin": "service", "http": "yes", "websockets": "no"}, "not possible with http"),
            ({"saslPlugin": "service", "saslMechanisms": "EXTERNAL"}, "answered by the router itself"),
        ]
        for attrs, reason in wrong:
            with pytest.raises(ManagementError, match=reason):
                client.create("listener", {"host": "127.0.0.1", "port": "0", **attrs}, name="wrong")
        refused: list[dict[str, str]] = [
            {}, {"host": "h", "authService": "h:1"}, {"authService": "h"}, {"host": "h", "port": "0"},
            {"host": "ann:planted@h"}, {"authService": "ann:planted@h:1"},
        ]  # fmt: skip
        for attrs in refused:
            with pytest.raises(ManagementError) as raised:
                client.create("authServicePlugin", attrs, name="wrong")
            assert raised.value.status == 400
            assert "planted" not in str(raised.value)


def test_a_router_can_be_the_service(start: Start, tmp_path: Path) -> None:
    """Any AMQP server with SASL can; one that names nobody leaves clients with the rights of anonymous ones."""
    folder = tmp_path / "service"
    folder.mkdir()
    (folder / "s.users").write_text("alice:{plain}secret\n", encoding="utf-8")
    port = free_port()
    text = section("router", id="S", saslConfigDir=folder, saslConfigName="s")
    text += section("listener", host="127.0.0.1", port=port, authenticatePeer=True, allowInsecurePlain=True)
    other = RouterProcess(folder, "S", text, [port])
    try:
        other.start()
        world = start(port)
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            assert world.outcome(mechanism, password="wrong") == 1
            with RawClient(world.guarded) as raw:
                assert raw.login(mechanism, "alice", "secret").code == 0
                raw.open(sasl=False, container_id=mechanism)
                assert world.users()[mechanism] == ("anonymous", mechanism)
    finally:
        other.stop()


def test_a_service_whose_profile_is_unusable_keeps_its_listeners_closed(tmp_path: Path, service: AuthServer) -> None:
    """As with an unusable profile of the listener itself, the router starts without it."""
    extra = section("sslProfile", name="tls", caCertFile="/nowhere/ca.pem")
    world = World(tmp_path, service.port, {}, {"sslProfile": "tls"}, extra)
    world.router.ports.remove(world.guarded)
    try:
        world.router.start()
        with ManagementClient(world.router.url) as client:
            assert client.query("authServicePlugin", ["name"]) == []
            assert [row["name"] for row in client.query("listener", ["name"])] != ["guarded"]
        with pytest.raises(ConnectionRefusedError):
            RawClient(world.guarded)
        assert "listener guarded: stays closed, because sslProfile tls of its saslPlugin" in world.router.log
    finally:
        world.router.stop()


def test_the_check_of_a_configuration_knows_plugins(tmp_path: Path) -> None:
    good = section("authServicePlugin", name="s", host="h", port=1)
    listener = section("listener", name="L", host="127.0.0.1", port=0, saslPlugin="s", authenticatePeer=True)
    for plugin, code, text in (
        (good, 0, "passwords of clients can be read on the way"),
        (section("authServicePlugin", name="s", host="h", port=0), 1, "port: 0 is for listeners only"),
        (good.replace("port: 1", "sslProfile: none"), 1, "there is no sslProfile named 'none'"),
        ("", 1, "there is no authServicePlugin named 's'"),
    ):
        path = tmp_path / "A.conf"
        path.write_text(section("router", id="A") + plugin + listener, encoding="utf-8")
        done = subprocess.run(
            [*command(), "-c", str(path), "--check"], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr
