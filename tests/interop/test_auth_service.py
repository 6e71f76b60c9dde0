"""authServicePlugin: a service decides on SASL exchanges, names the users, and says what they may attach."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.raw_client import SASL, Ended, RawClient
from tests.interop.shared import fresh
from tests.kit.auth_service import AuthServer, Link, Script, rights
from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, command, section
from tests.kit.waiting import wait_until
from waymesh_amqp.errors import AmqpError
from waymesh_amqp.performatives import Detach, SaslInit, SaslMechanisms, SaslOutcome
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

SYS_TEMP = 4
Start = Callable[..., "World"]


class World:
    """A router with a listener whose clients a service decides on, and one for management."""

    def __init__(self, folder: Path, port: int, listener: dict[str, Any], plugin: dict[str, Any], extra: str) -> None:
        self.free, self.guarded = free_port(), free_port()
        attrs = {"authenticatePeer": True, "allowInsecurePlain": True, "saslPlugin": "service", **listener}
        text = section("router", id="A") + extra
        text += section("authServicePlugin", **{"name": "service", "host": "127.0.0.1", "port": port, **plugin})
        text += section("listener", host="127.0.0.1", port=self.free)
        text += section("listener", name="guarded", host="127.0.0.1", port=self.guarded, **attrs)
        self.router = RouterProcess(folder, "A", text, [self.free, self.guarded])

    def outcome(self, mechanism: str = "PLAIN", user: str = "alice", password: str = "secret") -> int:
        """The code of a raw client's login; -1 without one."""
        try:
            with RawClient(self.guarded) as raw:
                return raw.login(mechanism, user, password).code
        except (Ended, AmqpError):
            return -1

    def offered(self) -> set[str]:
        """What a client without TLS is offered."""
        with RawClient(self.guarded) as raw:
            raw.send(SASL)
            raw.read(8)
            return set(raw.expect(SaslMechanisms).sasl_server_mechanisms)

    def users(self) -> dict[str, tuple[Any, Any]]:
        """User and mechanism of each connection, by container."""
        with ManagementClient(self.router.url) as client:
            rows = client.query("connection", ["container", "user", "sasl"])
        return {row["container"]: (row["user"], row["sasl"]) for row in rows}


@pytest.fixture
def service() -> Iterator[AuthServer]:
    server = AuthServer()
    yield server
    server.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a router with a service at this port."""
    with ExitStack() as stack:

        def started(port: int, extra: str = "", plugin: dict[str, Any] | None = None, **listener: Any) -> World:
            world = World(tmp_path, port, listener, plugin or {}, extra)
            stack.callback(world.router.stop)
            world.router.start()
            return world

        yield started


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


def nothing(_: AuthServer, link: Link) -> None:
    """It reads and never answers."""
    while True:
        link.read(1)


def garbage(_: AuthServer, link: Link) -> None:
    link.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    nothing(_, link)


def no_sasl(_: AuthServer, link: Link) -> None:
    link.send(b"AMQP\x00\x01\x00\x00")
    nothing(_, link)


def early_end(_: AuthServer, link: Link) -> None:
    link.read(8)


def huge(_: AuthServer, link: Link) -> None:
    link.send(SASL + b"\x7f\xff\xff\xff\x02\x01\x00\x00" + b"\0" * 65536)
    nothing(_, link)


def unasked_outcome(_: AuthServer, link: Link) -> None:
    """It lets somebody in who has not said anything."""
    link.send(SASL)
    link.put(SaslOutcome(code=0))
    nothing(_, link)


def empty_offer(server: AuthServer, link: Link) -> None:
    server.mechanisms = ()
    server.offer(link)
    nothing(server, link)


BEFORE = [garbage, no_sasl, early_end, huge, unasked_outcome, empty_offer, nothing]


@pytest.mark.parametrize("script", BEFORE)
def test_nobody_gets_in_where_the_service_does_not_even_offer(
    start: Start, service: AuthServer, script: Script
) -> None:
    world = start(service.port, initialHandshakeTimeoutSeconds=2)
    service.script = script
    with RawClient(world.guarded) as raw:
        raw.send(SASL)
        raw.read(8)
        assert raw.expect(SaslOutcome).code == SYS_TEMP
        assert raw.read_to_end() == b""
    service.script = None
    service.mechanisms = ("PLAIN",)
    assert world.outcome() == 0  # the next one is served as ever
    assert "AUTHSERVICE (error)" in world.router.log
    assert "AUTHSERVICE (notice) authServicePlugin service: 127.0.0.1" in world.router.log
    assert "internal error" not in world.router.log


def drops_later(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()


def nonsense_later(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()
    link.put(SaslMechanisms(sasl_server_mechanisms=["PLAIN"]))
    nothing(server, link)


def silent_later(server: AuthServer, link: Link) -> None:
    server.offer(link)
    nothing(server, link)


def ok_without_open(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()
    link.put(SaslOutcome(code=0))
    nothing(server, link)


def ok_and_gone(server: AuthServer, link: Link) -> None:
    server.offer(link)
    link.frame()
    link.put(SaslOutcome(code=0))


def bad_names(identity: Any) -> Script:
    def script(server: AuthServer, link: Link) -> None:
        server.offer(link)
        link.frame()
        link.put(SaslOutcome(code=0))
        server.name(link, identity)

    return script


AFTER = {
    "drops": drops_later, "nonsense": nonsense_later, "silent": silent_later, "no open": ok_without_open,
    "gone": ok_and_gone, "number": bad_names({"authenticated-identity": {"sub": 7}}),
    "control": bad_names({"authenticated-identity": {"sub": "a\nb"}}), "long": bad_names(
        {"authenticated-identity": {"sub": "a" * 256}}), "no map": bad_names({"authenticated-identity": "alice"}),
    "rights": bad_names({"address-authz": "all"}), "words": bad_names({"address-authz": {"orders": 1}}),
}  # fmt: skip


@pytest.mark.parametrize("script", AFTER)
def test_nobody_gets_in_where_the_service_fails_later(start: Start, service: AuthServer, script: str) -> None:
    world = start(service.port, initialHandshakeTimeoutSeconds=2)
    service.script = AFTER[script]
    assert world.outcome() == SYS_TEMP
    service.script = None
    assert world.outcome() == 0
    wait_until(lambda: service.links == 0)


def test_a_service_that_is_away_or_not_found_lets_nobody_in(start: Start, service: AuthServer) -> None:
    service.close()
    world = start(service.port)
    assert world.outcome() == -1
    with RawClient(world.guarded) as raw:
        raw.send(SASL)
        raw.read(8)
        assert raw.expect(SaslOutcome).code == SYS_TEMP
    with ManagementClient(world.router.url) as client:
        client.create("authServicePlugin", {"host": "nowhere.invalid", "port": "5672"}, name="unknown")
        port = free_port()
        client.create("listener", {"host": "127.0.0.1", "port": str(port), "saslPlugin": "unknown"}, name="lost")
    with RawClient(port) as raw:
        raw.send(SASL)
        raw.read(8)
        assert raw.expect(SaslOutcome).code == SYS_TEMP
    assert "cannot resolve nowhere.invalid" in world.router.log


def test_a_service_that_hangs_delays_nobody_else_and_is_left_with_the_client(
    start: Start, service: AuthServer
) -> None:
    world = start(service.port)
    service.script = nothing
    with ExitStack() as stack:
        waiting = [stack.enter_context(RawClient(world.guarded)) for _ in range(20)]
        for raw in waiting:
            raw.send(SASL)
        wait_until(lambda: service.links == 20)
        with Client(world.router.url, container_id="free"):
            assert "free" in world.users()
    wait_until(lambda: service.links == 0)


def closes_after_offer(server: AuthServer, link: Link) -> None:
    server.offer(link)


def test_a_client_that_hesitates_until_the_service_is_gone_is_refused(start: Start, service: AuthServer) -> None:
    """That is no failure of the service; the log does not call it one."""
    world = start(service.port)
    service.script = closes_after_offer
    with RawClient(world.guarded) as raw:
        raw.send(SASL)
        raw.read(8)
        raw.expect(SaslMechanisms)
        wait_until(lambda: service.links == 0)
        with Client(world.router.url, container_id="later"):  # the router has read that end before
            assert "later" in world.users()
        raw.put(SaslInit(mechanism="PLAIN", initial_response=b"\0alice\0secret"))
        assert raw.expect(SaslOutcome).code == SYS_TEMP
    assert "AUTHSERVICE (error)" not in world.router.log


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
        for attach in (
            lambda: raw.attach_sender("news.sport", wait_credit=False),
            lambda: raw.attach_receiver("other"),
            lambda: raw.attach_sender("$management", wait_credit=False),
        ):
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
            ({"saslPlugin": "service", "http": "yes"}, "not possible with http"),
            ({"saslPlugin": "service", "saslMechanisms": "EXTERNAL"}, "answered by the router itself"),
        ]
        for attrs, reason in wrong:
            with pytest.raises(ManagementError, match=reason):
                client.create("listener", {"host": "127.0.0.1", "port": "0", **attrs}, name="wrong")
        for attrs in ({}, {"host": "h", "authService": "h:1"}, {"authService": "h"}, {"host": "h", "port": "0"}):
            with pytest.raises(ManagementError) as raised:
                client.create("authServicePlugin", attrs, name="wrong")
            assert raised.value.status == 400


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
            [*command(), "-c", str(path), "--check"], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, text in done.stderr) == (code, True), done.stderr
