"""AMQP over WebSocket: rhea on Node.js, and raw frames where a test needs to see what is sent."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wsproto.events import BytesMessage, Ping, TextMessage

from tests.interop import core_set, programs
from tests.interop.programs import Program
from tests.interop.raw_client import AMQP, SASL, RawClient
from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.web_socket import Rejected, WebSocket
from waymesh_amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

Listening = Callable[..., tuple[RouterProcess, int]]
MEBIBYTE = 1024 * 1024
NORMAL, UNSUPPORTED = 1000, 1003


@pytest.fixture
def listening(start_router: StartRouter) -> Listening:
    """Start a router with an HTTP listener `web` of these attributes; the router and the listener's port."""

    def start(extra: str = "", **attributes: object) -> tuple[RouterProcess, int]:
        port = free_port()
        listener = section("listener", name="web", host="127.0.0.1", port=port, http=True, **attributes)
        router = start_router(extra=extra + listener)
        router.ports.append(port)
        router.wait_listening()
        return router, port

    return start


@pytest.fixture
def rhea() -> Iterator[Program]:
    made = programs.rhea()
    yield made
    made.end()


def check_rhea(rhea: Program, web: str, tcp: str, **tls: str) -> None:
    """1,000 small messages, and two of 1 MiB each way."""
    receiver = rhea("receive", url=web, address="small", count=1000, **tls).wait_ready()
    sender = rhea("send", url=web, address="small", count=1000, **tls)
    assert sender.result()["outcomes"] == {"accepted": 1000}
    assert core_set.numbers(receiver.result()) == list(range(1000))
    digests = [core_set.digest(number, MEBIBYTE) for number in range(2)]
    for send_to, receive_at in ((web, tcp), (tcp, web)):
        receiver = rhea("receive", url=receive_at, address="large", count=2, **tls).wait_ready()
        sender = rhea("send", url=send_to, address="large", count=2, size=MEBIBYTE, **tls)
        assert sender.result()["outcomes"] == {"accepted": 2}
        assert [message["sha256"] for message in receiver.result()["messages"]] == digests


def test_rhea(rhea: Program, listening: Listening) -> None:
    router, port = listening()
    check_rhea(rhea, f"ws://127.0.0.1:{port}/any/path", router.url)
    core_set.check_outcomes(rhea, "outcomes", f"ws://127.0.0.1:{port}", router.url)


# ---- TLS
@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def worker(authority: Authority) -> KeyPair:
    return authority.issue("worker", {"CN": "worker"})


@pytest.fixture
def secured(listening: Listening, authority: Authority) -> tuple[RouterProcess, int]:
    """Its HTTP listener takes client certificates."""
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    profile = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key, caCertFile=authority.cert,
                      uidFormat="n")  # fmt: skip
    return listening(profile, sslProfile="p", requireSsl=True, saslMechanisms="EXTERNAL ANONYMOUS")


def test_rhea_over_tls(
    rhea: Program, secured: tuple[RouterProcess, int], authority: Authority, worker: KeyPair
) -> None:
    router, port = secured
    files = {"ca": str(authority.cert), "cert": str(worker.cert), "key": str(worker.key)}
    check_rhea(rhea, f"wss://127.0.0.1:{port}", router.url, **files)


def test_a_client_certificate_names_the_user(
    secured: tuple[RouterProcess, int], authority: Authority, worker: KeyPair
) -> None:
    router, port = secured
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.load_cert_chain(worker.cert, worker.key)
    with RawClient(port, over=WebSocket(port, tls=context)) as raw, ManagementClient(router.url) as client:
        raw.send(SASL)
        assert raw.read(8) == SASL
        assert raw.expect(SaslMechanisms).sasl_server_mechanisms == ["EXTERNAL", "ANONYMOUS"]
        raw.put(SaslInit(mechanism="EXTERNAL", initial_response=b""))
        assert raw.expect(SaslOutcome).code == 0
        raw.open(sasl=False)
        rows = client.query("connection", ["user", "sasl", "isEncrypted", "container"])
        (row,) = [row for row in rows if row["container"] == "raw"]
        assert (row["user"], row["sasl"], row["isEncrypted"]) == ("worker", "EXTERNAL", True)


# ---- frames
def test_fragments_pings_and_the_end(listening: Listening) -> None:
    _, port = listening()
    web = WebSocket(port)
    assert web.accepted is not None
    assert (web.accepted.subprotocol, web.accepted.extensions) == ("amqp", [])
    with RawClient(port, over=web) as raw:
        for byte in SASL:
            web.send(BytesMessage(data=bytes((byte,)), message_finished=byte == 0))
            web.send(Ping(payload=b"%d" % byte))
        assert raw.read(8) == SASL
        raw.expect(SaslMechanisms)
        raw.put(SaslInit(mechanism="ANONYMOUS"))
        assert raw.expect(SaslOutcome).code == 0
        raw.open(sasl=False)
        assert web.pongs[-1] == b"0"
        raw.send(b"\0\0\0\x0c\x02\0\0\0\0\x53\x18\x45")  # close, in one frame: size, header, described empty list
        assert raw.read_to_end()
        assert web.closed == (NORMAL, "")


def test_text_is_refused(listening: Listening) -> None:
    _, port = listening()
    web = WebSocket(port)
    web.send(TextMessage(data="AMQP"))
    assert web.wait_closed() == (UNSUPPORTED, "AMQP needs binary messages")


def test_a_protocol_that_is_not_amqp_is_answered_and_ended(listening: Listening) -> None:
    _, port = listening()
    web = WebSocket(port)
    web.sendall(b"MQTT\x00\x01\x00\x00")
    assert web.recv(8) in (AMQP, SASL)
    assert web.wait_closed() == (NORMAL, "")


def test_a_slow_reader_gets_everything_in_order(listening: Listening) -> None:
    router, port = listening(idleTimeoutSeconds=0)  # the client says nothing while it reads
    web = WebSocket(port, receive_bytes=4096)
    with RawClient(port, over=web) as raw, Client(router.url) as client:
        raw.open()
        raw.begin()
        raw.attach_receiver("slow", credit=20)
        sender = client.sender("slow")
        bodies = [f"{number:02}" * (MEBIBYTE // 4) for number in range(20)]
        sent = [sender.send(body, wait=False) for body in bodies]
        web.send(Ping(payload=b"in between"))
        for body in bodies:
            _, payload = raw.delivery()
            assert payload.endswith(body.encode())
        raw.accept(0)
        assert sent[0].outcome() == "accepted"
        assert web.pongs == [b"in between"]


def test_tenants_are_told_apart_by_the_open_as_over_tcp(listening: Listening) -> None:
    router, port = listening(multiTenant=True, metrics=False)
    with RawClient(port, over=WebSocket(port)) as raw, Client(router.url) as client:
        raw.open(hostname="a.example")
        raw.begin()
        raw.attach_receiver("orders", credit=1)
        sent = client.sender("a.example/orders").send("for the tenant", wait=False)
        assert raw.delivery()[1].endswith(b"for the tenant")
        raw.accept(0)
        assert sent.outcome() == "accepted"


# ---- limits
def test_limits_are_those_of_amqp(listening: Listening) -> None:
    _, port = listening(maxConnections=1)
    with RawClient(port, over=WebSocket(port)) as first, RawClient(port, over=WebSocket(port)) as second:
        first.open()
        second.open()
        assert second.close_error()[0] == "amqp:resource-limit-exceeded"


def test_who_is_too_slow_is_ended(listening: Listening) -> None:
    _, port = listening(initialHandshakeTimeoutSeconds=2)
    with RawClient(port, over=WebSocket(port)) as silent, RawClient(port) as slow:
        silent.read_to_end()
        slow.send(b"GET /healthz HTTP/1.1\r\n")
        assert slow.read_to_end() == b""


def test_origins(listening: Listening) -> None:
    _, port = listening(allowedOrigins="https://console.example")
    for origin in (None, f"http://127.0.0.1:{port}", "https://console.example"):
        WebSocket(port, origin=origin).close()
    for origin in ("https://other.example", "null", f"https://127.0.0.1:{port}"):
        with pytest.raises(Rejected, match="403 the origin is neither"):
            WebSocket(port, origin=origin)
    with pytest.raises(Rejected, match="400 the client must offer the subprotocol amqp"):
        WebSocket(port, subprotocols=["mqtt"])


def test_users_log_in(listening: Listening, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:{plain}secret\n", encoding="utf-8")
    _, port = listening(authenticatePeer=True, healthz=False, metrics=False, usersFile=users)
    with RawClient(port, over=WebSocket(port)) as raw:
        assert raw.login("SCRAM-SHA-256", "alice", "secret").code == 0
        raw.open(sasl=False)
    with RawClient(port, over=WebSocket(port)) as raw:
        assert raw.login("SCRAM-SHA-256", "alice", "wrong").code == 1


def test_pages_of_a_listener_that_authenticates_peers_are_not_for_strangers(
    listening: Listening, tmp_path: Path
) -> None:
    """With the console listener of AMQ Interconnect. Passwords and tokens open no page without TLS."""
    users, root = tmp_path / "users", tmp_path / "console"
    users.write_text("alice:{plain}secret\n", encoding="utf-8")
    root.mkdir()
    (root / "index.html").write_text("<p>", encoding="utf-8")
    _, port = listening(authenticatePeer=True, usersFile=users, httpRootDir=root)
    basic = "Basic " + base64.b64encode(b"alice:secret").decode()
    for path in ("/", "/index.html", "/healthz", "/metrics", "/readyz", "/no", "/?x=/healthz", "//metrics"):
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            for fields in ({}, {"Authorization": basic}, {"Authorization": "Bearer x"}, {"Upgrade": "h2c"}):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request(method, path, headers=fields)
                response = connection.getresponse()
                assert response.status == 401
                assert response.headers["WWW-Authenticate"] == "TLS-Client-Certificate"
                assert b"<p>" not in response.read()
                connection.close()
    with RawClient(port, over=WebSocket(port)) as raw:
        assert raw.login("SCRAM-SHA-256", "alice", "secret").code == 0
        raw.open(sasl=False)
    with RawClient(port, over=WebSocket(port)) as raw:
        assert raw.login("SCRAM-SHA-256", "alice", "wrong").code == 1


@pytest.mark.parametrize("mechanisms", [None, "EXTERNAL SCRAM-SHA-256"])
def test_pages_of_a_listener_that_authenticates_peers_are_for_certificates(
    listening: Listening, authority: Authority, worker: KeyPair, mechanisms: str | None
) -> None:
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    profile = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key, caCertFile=authority.cert)
    limited = {} if mechanisms is None else {"saslMechanisms": mechanisms}
    _, port = listening(profile, sslProfile="p", requireSsl=True, authenticatePeer=True, **limited)
    for certificate, status in ((None, 401), (worker, 200)):
        context = ssl.create_default_context(cafile=str(authority.cert))
        if certificate is not None:
            context.load_cert_chain(certificate.cert, certificate.key)
        connection = http.client.HTTPSConnection("localhost", port, timeout=30, context=context)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == status
        connection.close()


# ---- files
def test_compat_25_files_beside_pages_and_web_sockets(listening: Listening, tmp_path: Path) -> None:
    root = tmp_path / "console"
    root.mkdir()
    (root / "index.html").write_text("<p>", encoding="utf-8")
    (root / "large.bin").write_bytes(bytes(range(256)) * 20000)
    _, port = listening(httpRootDir=root)

    def get(path: str, method: str = "GET") -> tuple[int, int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, int(response.headers["Content-Length"]), response.read()

    assert get("/") == (200, 3, b"<p>")
    assert get("/large.bin") == (200, 5120000, bytes(range(256)) * 20000)
    assert get("/large.bin", "HEAD") == (200, 5120000, b"")
    assert get("/healthz") == (200, 3, b"OK\n")
    assert get("/../console.conf")[0] == 404
    WebSocket(port).close()
