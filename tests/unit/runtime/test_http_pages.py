"""Probes and metrics over HTTP, with complete routers."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import DEADLINE_S, wait_until
from tests.unit.runtime.fakes import running
from waymesh_client.management import ManagementClient
from waymesh_router.runtime.http.message import MAX_HEAD_BYTES, BadRequest, Exchange
from waymesh_router.runtime.http.pages import Page
from waymesh_router.runtime.http.site import Site
from waymesh_router.runtime.options import VERSION

StartRouter = Callable[..., RouterProcess]


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        assert response.headers["Connection"] == "close"
        return response.status, response.read().decode()
    finally:
        connection.close()


def started(router: RouterProcess) -> RouterProcess:
    """A router whose listeners are all open."""
    wait_until(lambda: "started, mode" in router.log)
    return router


def http_listener(port: int, **more: object) -> str:
    return section("listener", name="http", host="127.0.0.1", port=port, http=True, **more)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def router(start_router: StartRouter, port: int) -> RouterProcess:
    return started(start_router("A", http_listener(port)))


def test_probes(router: RouterProcess, port: int) -> None:
    assert get(port, "/healthz") == (200, "OK\n")
    assert get(port, "/readyz?verbose") == (200, "OK\n")
    assert get(port, "/healthz", "HEAD") == (200, "")
    assert get(port, "/secrets")[0] == 404
    assert get(port, "/healthz", "POST")[0] == 405


def test_pages_can_be_switched_off(start_router: StartRouter, port: int) -> None:
    started(start_router("A", http_listener(port, healthz=False, metrics=False)))
    for path in ("/healthz", "/readyz", "/metrics"):
        assert get(port, path)[0] == 404


def test_metrics_are_what_management_says(router: RouterProcess, port: int) -> None:
    with Client(router.url) as client:
        receiver = client.receiver("orders", credit=10)
        assert client.sender("orders").send("one").state is None
        receiver.next().accept()
        status, text = get(port, "/metrics")
        samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert status == 200
        assert samples["qdr_connections_total"] == "1"
        assert samples["qdr_links_total"] == "2"
        assert samples[f'waymesh_router_info{{id="A",mode="standalone",version="{VERSION}"}}'] == "1"
        wait_until(lambda: "\nqdr_accepted_deliveries_total 1\n" in get(port, "/metrics")[1])
        wait_until(lambda: '\nwaymesh_deliveries_total{outcome="accepted"} 1\n' in get(port, "/metrics")[1])
    types = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert sum(name.startswith("qdr_") for name in types) == 22
    assert {name.partition("{")[0] for name in samples} == set(types)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /healthz\r\n\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 20000, b"431"),
        (b"GET /healthz HTTP/1.1\r\nHost: here\r\nX: " + b"x" * 20000 + b"\r\n\r\n", b"431"),
        (b"\x16\x03\x01\r\n\r\n", b"400"),
    ],
)
def test_bad_requests(router: RouterProcess, port: int, request_: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as sock:
        sock.sendall(request_)
        assert sock.recv(65536).startswith(b"HTTP/1.1 " + status)
    assert get(port, "/healthz")[0] == 200


def _outcome(exchange: Exchange, pieces: list[bytes]) -> bytes:
    """The status of a refusal, else whether the last piece completed the request."""
    try:
        return b"request" if [exchange.receive(piece) for piece in pieces][-1] else b"none"
    except BadRequest as error:
        return exchange.encode(error.answer)[9:12]


@pytest.mark.parametrize(("size", "outcome"), [(MAX_HEAD_BYTES, b"request"), (MAX_HEAD_BYTES + 1, b"431")])
def test_the_limit_of_the_head_does_not_depend_on_how_it_arrives(size: int, outcome: bytes) -> None:
    head = b"GET / HTTP/1.1\r\nHost: here\r\nX: ".ljust(size - 4, b"x") + b"\r\n\r\n"
    for pieces in ([head], [head[:9000], head[9000:]], [head[:-1], head[-1:] + bytes(9)]):
        assert _outcome(Exchange(), pieces) == outcome


def test_a_refusal_does_not_repeat_the_request() -> None:
    with pytest.raises(BadRequest) as caught:
        Exchange().receive(b"GET / HTTP/1.1\r\nHost: here\r\nno colon\r\n\r\n")
    assert caught.value.answer.refused == "illegal header line"


@settings(deadline=None)
@given(st.binary() | st.tuples(st.binary(), st.binary()).map(lambda parts: b"%b /%b HTTP/1.1" % parts))
def test_any_request_has_an_answer(head: bytes) -> None:
    exchange = Exchange()
    site = Site({"name": "http"}, lambda path: Page(200, path))
    try:
        request = exchange.receive(head + b"\r\nHost: here\r\n\r\n")
        answer = site.answer(request, secure=False) if request is not None else None
    except BadRequest as error:
        answer = error.answer
    if answer is None:  # a head that does not end within these bytes
        return
    status, _, rest = exchange.encode(answer).partition(b"\r\n")
    assert status.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 405"))
    fields, _, body = rest.partition(b"\r\n\r\n")
    assert b"Connection: close" in fields
    assert b"Content-Length: %d\r\n" % len(body) in fields + b"\r\n" or not body


def test_a_slow_client_keeps_nobody_waiting(router: RouterProcess, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as slow:
        slow.sendall(b"GET /heal")
        assert get(port, "/healthz") == (200, "OK\n")
        slow.sendall(b"thz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as gone:
        gone.sendall(b"GET /heal")
    assert get(port, "/healthz") == (200, "OK\n")


def test_pages_over_tls(start_router: StartRouter, port: int, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost",))
    profile = section("sslProfile", name="p", certFile=pair.cert, privateKeyFile=pair.key)
    started(start_router("A", profile + http_listener(port, sslProfile="p", requireSsl=True)))
    context = ssl.create_default_context(cafile=str(authority.cert))
    raw = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
    with context.wrap_socket(raw, server_hostname="localhost") as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
        data = b""
        while part := sock.recv(65536):
            data += part
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'\nwaymesh_tls_certificate_not_after_seconds{profile="p"} ' in data
    assert data.endswith(b"waymesh_metrics_left_out 0\n")


def test_listeners_for_http_come_and_go(start_router: StartRouter, port: int) -> None:
    router = start_router("A")
    with ManagementClient(router.url) as client:
        client.create("listener", {"name": "h", "host": "127.0.0.1", "port": str(port), "http": True})
        assert get(port, "/readyz")[0] == 200
        client.delete("listener", name="h")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), DEADLINE_S)


def test_a_stopping_router_does_not_wait_for_http_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waymesh_router.runtime.host.CLOSE_S", 3600.0)
    with socket.socket() as client:
        client.settimeout(DEADLINE_S)
        with running() as host:
            client.connect(("127.0.0.1", host.listen(http=True)))
            client.sendall(b"GET /")
            wait_until(lambda: host.call(lambda: len(host.host._http._connections)) == 1)
        assert client.recv(100) == b""


def test_ready_with_the_first_neighbour(start_router: StartRouter, tmp_path: Path, port: int) -> None:
    mesh, other = free_port(), free_port()
    text = section("router", id="A", mode="interior") + http_listener(port)
    text += section("connector", host="127.0.0.1", port=mesh, role="inter-router", saslMechanisms="ANONYMOUS")
    one = RouterProcess(tmp_path, "A", text, [port])
    text = section("router", id="B", mode="interior") + section("listener", host="127.0.0.1", port=other)
    text += section("listener", host="127.0.0.1", port=mesh, role="inter-router", saslMechanisms="ANONYMOUS")
    two = RouterProcess(tmp_path, "B", text, [other, mesh])
    one.start()
    try:
        assert get(port, "/healthz")[0] == 200
        assert get(port, "/readyz") == (503, "no neighbour is connected yet\n")
        two.start()
        wait_until(lambda: get(port, "/readyz")[0] == 200)
        two.kill()
        assert get(port, "/readyz")[0] == 200, "ready once, ready for good"
    finally:
        one.stop()
        two.stop()
