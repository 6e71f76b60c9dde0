"""The REST API of a listener with the console: the entities of management, with the rights and statuses of AMQP."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.kit.certificates import Authority
from tests.kit.clients import Client
from tests.kit.fixtures import StartMesh
from tests.kit.mesh import Mesh
from tests.kit.ports import free_port
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer, keys_file
from tests.kit.waiting import wait_until
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

JSON = {"Content-Type": "application/json"}
DEADLINE_S = 30.0


class Door:
    """A listener with the API at router A."""

    def __init__(self, mesh: Mesh, context: Any = None, **attributes: object) -> None:
        self.port, self.context = free_port(), context
        mesh["A"].ports.append(self.port)
        given = {"host": "127.0.0.1", "port": str(self.port), "http": True, "console": True, **attributes}
        with ManagementClient(mesh["A"].url) as client:
            client.create("listener", given, name=f"web{self.port}")

    def ask(self, method: str, path: str, body: Any = None, **fields: str) -> tuple[int, Any, Any]:
        """Status, content and header fields of the answer."""
        connection: http.client.HTTPConnection
        if self.context is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        else:
            connection = http.client.HTTPSConnection("localhost", self.port, timeout=DEADLINE_S, context=self.context)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        head = {**(JSON if body is not None else {}), **{name.replace("_", "-"): text for name, text in fields.items()}}
        connection.request(method, f"/api/v1/{path}", data, head)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        found = json.loads(text) if answer.getheader("Content-Type") == "application/json" else text
        return answer.status, found, answer.headers

    def status(self, method: str, path: str, body: Any = None, **fields: str) -> int:
        return self.ask(method, path, body, **fields)[0]

    def raw(self, data: bytes) -> bytes:
        """The start of the answer to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as sock:
            sock.sendall(data)
            return sock.recv(200)


@pytest.fixture
def mesh(start_mesh: StartMesh) -> Mesh:
    return start_mesh(2)


def test_an_entity_from_its_creation_to_its_end(mesh: Mesh) -> None:
    door = Door(mesh)
    given = {"name": "a/b ü", "prefix": "orders", "distribution": "closest"}
    status, made, fields = door.ask("POST", "address", given)
    assert (status, made["distribution"]) == (201, "closest")
    status, found, _ = door.ask("GET", fields["Location"].removeprefix("/api/v1/"))
    assert (status, found["name"]) == (200, "a/b ü")
    one = f"address/{quote('a/b ü', safe='')}"
    assert door.ask("GET", one)[1] == found
    assert door.status("POST", "address", given) == 409
    assert door.status("PATCH", one, {"distribution": "multicast"}) in (400, 403, 405)
    assert door.status("DELETE", one) == 204
    status, error, _ = door.ask("GET", one)
    assert (status, error["status"]) == (404, 404)
    assert door.status("PATCH", "log/log/DEFAULT?by=identity", {"enable": "debug+"}) == 200
    with ManagementClient(mesh["A"].url) as client:
        assert client.read("log", identity="log/DEFAULT")["enable"] == "debug+"
    wait_until(lambda: "request" in mesh["A"].log, DEADLINE_S, "the log")


def test_queries(mesh: Mesh) -> None:
    door = Door(mesh)
    for number in range(5):
        distribution = "closest" if number < 2 else "multicast"
        body = {"name": f"n{number}", "prefix": f"p{number}", "distribution": distribution}
        assert door.status("POST", "address", body) == 201
    where = quote("name LIKE 'n%'")
    some = "orderBy=name%20desc&count=2&offset=1&attributes=name,prefix"
    _, found, _ = door.ask("GET", f"address?where={where}&{some}")
    assert found == {"entities": [{"name": "n3", "prefix": "p3"}, {"name": "n2", "prefix": "p2"}]}
    _, found, _ = door.ask("GET", f"address?where={where}&groupBy=distribution")
    assert found == {"groups": [{"distribution": "multicast", "count": 3}, {"distribution": "closest", "count": 2}]}
    _, found, _ = door.ask("GET", "router?router=B&attributes=id,mode")
    assert found == {"entities": [{"id": "B", "mode": "interior"}]}
    assert door.ask("GET", "log/log/DEFAULT?by=identity&router=B")[1]["module"] == "DEFAULT"
    for path, status in (
        ("address?count=1001", 400), ("address?count=x", 400), ("address?count=1&count=2", 400), ("address?bad=1", 400),
        ("address?attributes=nothing", 404), ("address?where=%28", 400), ("nothing", 400), ("", 404),
        ("address/%ff", 400),
        ("router?router=../x", 400), ("address/x?by=prefix", 400), ("openapi.json?router=B", 200),
    ):  # fmt: skip
        assert door.status("GET", path) == status, path


def test_the_document_describes_what_is_there(mesh: Mesh) -> None:
    status, document, _ = Door(mesh).ask("GET", "openapi.json")
    assert status == 200
    assert document["openapi"].startswith("3.")
    listener = document["components"]["schemas"]["listener"]["properties"]
    assert listener["console"]["type"] == "boolean"
    assert "post" in document["paths"]["/api/v1/listener"]
    assert "post" not in document["paths"]["/api/v1/connection"]
    assert set(document["paths"]["/api/v1/connection/{name}"]) == {"parameters", "get", "patch"}


def test_the_policy_is_checked(mesh: Mesh) -> None:
    door = Door(mesh, management="read")
    with ManagementClient(mesh["B"].url) as client:
        group = {"users": "ann", "remoteHosts": "*", "sources": "news*"}
        client.create("vhost", {"hostname": "v", "groups": {"staff": group}})
        client.update({"enableVhostPolicy": True}, "policy")
    about = "check-policy?router=B&user=ann&host=10.1.2.3&hostname=v&direction=in&address="
    status, found, _ = door.ask("GET", about + "news.1")
    assert (status, found["allowed"], found["reasons"][-1]) == (200, True, "sources allow 'news.1': 'news*'")
    status, found, _ = door.ask("GET", about + "orders")
    assert (status, found["allowed"]) == (200, False)
    assert found["reasons"][-1] == "link denied: sources have no rule for 'orders': news*"
    for path in ("check-policy", "check-policy?user=ann", about.replace("10.1.2.3", "x"), about + "x&more=1"):
        assert door.status("GET", path) == 400, path
    assert door.status("POST", "check-policy", {}) == 405
    assert "/api/v1/check-policy" in door.ask("GET", "openapi.json")[1]["paths"]


@pytest.mark.parametrize("right", ["none", "read", "write"])
def test_the_right_of_the_listener_holds(mesh: Mesh, right: str) -> None:
    door = Door(mesh, management=right)
    body = {"name": "x", "prefix": "x"}
    wanted = {"none": (403, 403, 403), "read": (200, 403, 403), "write": (200, 201, 204)}[right]
    found = door.status("GET", "router"), door.status("POST", "address", body), door.status("DELETE", "address/x")
    assert found == wanted


def test_hostile_requests(mesh: Mesh) -> None:
    door = Door(mesh)
    body = {"name": "x", "prefix": "x"}
    text = json.dumps(body).encode()
    assert door.status("POST", "address", text, Content_Type="text/plain") == 415
    assert door.status("POST", "address", text, Content_Type="application/x-www-form-urlencoded") == 415
    assert door.status("POST", "address", body, Origin="http://evil.example") == 403
    assert door.status("GET", "router", Origin="null") == 403
    assert door.status("POST", "address", body, Host="evil.example") == 403
    status, _, fields = door.ask("OPTIONS", "address", Origin=f"http://127.0.0.1:{door.port}")
    assert (status, fields.get("Allow")) == (405, "GET, HEAD, POST")
    assert not [name for name in fields if name.lower().startswith("access-control")]
    numbers = (b'{"a":' + b"9" * 5000 + b"}", b'{"a":' + b"9" * 30 + b"}", b'{"a":NaN}')
    deep = (b"[" * 60000, b'{"a":' * 20 + b"1" + b"}" * 20)
    for content in (b"", b"[]", b"{", b'{"a":1,"a":2}', b"\xff", b'{"name":"\\ud800","prefix":"y"}', *numbers, *deep):
        assert door.status("POST", "address", content) == 400, content[:20]
    assert door.status("POST", "address", b"x" * 65537) == 413
    many = {"name": "y", "prefix": "y", "x": list(range(20_000))}
    assert door.status("POST", "address", many) in (400, 413)
    head = b"POST /api/v1/address HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert door.raw(head + both)[9:12] in (b"400", b"501")
    assert door.raw(head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef")[9:12] == b"400"
    assert door.raw(head + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")[9:12] == b"417"
    chunked = b"%x\r\n" % len(text) + text + b"\r\n0\r\n\r\n"
    assert door.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked)[9:12] == b"201"
    assert door.ask("GET", "address/x")[1]["prefix"] == "x"
    # A password is never sent, and never ignored, without TLS.
    assert door.status("GET", "router", Authorization="Basic YTpi") == 401




def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Authority, dict[str, str]]:
    authority = Authority(tmp_path)
    pair = authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
    users = tmp_path / "users"
    users.write_text("alice:{plain}secret\nbob:{plain}secret\n", encoding="utf-8")
    return authority, {"certFile": str(pair.cert), "privateKeyFile": str(pair.key), "usersFile": str(users)}


def known(mesh: Mesh, files: tuple[Authority, dict[str, str]], **attributes: object) -> Door:
    authority, given = files
    with ManagementClient(mesh["A"].url) as client:
        profile = {"caCertFile": str(authority.cert), "certFile": given["certFile"]}
        client.create("sslProfile", {**profile, "privateKeyFile": given["privateKeyFile"]}, name="tls")
    context = ssl.create_default_context(cafile=str(authority.cert))
    attrs = {"sslProfile": "tls", "requireSsl": True, "authenticatePeer": True, "usersFile": given["usersFile"]}
    return Door(mesh, context, **{**attrs, **attributes})


def test_users_log_in_over_tls(mesh: Mesh, files: tuple[Authority, dict[str, str]]) -> None:
    door = known(mesh, files)
    status, _, fields = door.ask("GET", "router")
    assert (status, "Basic" in fields["WWW-Authenticate"]) == (401, True)
    assert door.status("GET", "router", Authorization=basic("alice", "wrong")) == 401
    assert door.status("GET", "router", Authorization="Bearer x") == 401
    login = basic("alice", "secret")
    status, found, _ = door.ask("GET", "connection?attributes=user,isEncrypted,sasl", Authorization=login)
    assert status == 200
    assert {"user": "alice", "isEncrypted": True, "sasl": "PLAIN"} in found["entities"]
    body = {"name": "x", "prefix": "x"}
    assert door.status("POST", "address", body, Authorization=login) == 201
    wait_until(lambda: "management.create type=router.config.address" in mesh["A"].log, DEADLINE_S, "the log")


def test_a_bearer_token_logs_in(mesh: Mesh, files: tuple[Authority, dict[str, str]], tmp_path: Path) -> None:
    issuer = Issuer()
    profile = {"issuer": ISSUER, "audience": AUDIENCE, "keysFile": str(keys_file(tmp_path, issuer.jwks()))}
    with ManagementClient(mesh["A"].url) as client:
        client.create("tokenProfile", profile, name="t")
    door = known(mesh, files, tokenProfile="t", usersFile=None, saslMechanisms="OAUTHBEARER")
    query = "connection?attributes=user,sasl"
    assert door.status("GET", query) == 401
    assert door.status("GET", query, Authorization=f"Bearer {issuer.token(exp=1)}") == 401
    assert door.status("GET", query, Authorization=f"Bearer {issuer.forged('none')}") == 401
    assert door.status("GET", query, Authorization=basic("alice", "secret")) == 401
    status, found, _ = door.ask("GET", query, Authorization=f"Bearer {issuer.token()}")
    assert status == 200
    assert {"user": "alice", "sasl": "OAUTHBEARER"} in found["entities"]


def test_a_client_certificate_logs_in(mesh: Mesh, files: tuple[Authority, dict[str, str]], tmp_path: Path) -> None:
    door = known(mesh, files, usersFile=None, saslMechanisms="EXTERNAL")
    query = "connection?attributes=user,sasl"
    with pytest.raises(ssl.SSLError):  # without one, the handshake ends
        door.ask("GET", query)
    (tmp_path / "other").mkdir()
    alice = files[0].issue("alice", {"CN": "alice"})
    door.context.load_cert_chain(alice.cert, alice.key)
    status, found, _ = door.ask("GET", query)
    assert status == 200
    assert {"user": "CN=alice", "sasl": "EXTERNAL"} in found["entities"]
    stranger = Authority(tmp_path / "other", "Other CA").issue("mallory", {"CN": "mallory"})
    door.context.load_cert_chain(stranger.cert, stranger.key)
    # The router ends the handshake, or the connection.
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        door.ask("GET", query)


def test_limits_of_the_listener_hold(mesh: Mesh) -> None:
    door = Door(mesh, connectionRate="2/60")
    assert [door.status("GET", "router") for _ in range(4)] == [200, 200, 503, 503]


def test_a_tenant_sees_its_own(mesh: Mesh, files: tuple[Authority, dict[str, str]]) -> None:
    with ManagementClient(mesh["A"].url) as client:
        group = {"users": "*", "remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": True}
        client.create("vhost", {"hostname": "localhost", "groups": {"$default": group}, "allowUnknownUser": True})
    door = known(mesh, files, multiTenant=True, metrics=False, management="read")
    login = basic("alice", "secret")
    with Client(mesh["A"].url) as other:
        other.receiver("secret-orders")
        status, found, _ = door.ask("GET", "router.address?attributes=key", Authorization=login)
        assert status == 200
        assert "secret-orders" not in str(found)
        status, found, _ = door.ask("GET", "connection?attributes=user", Authorization=login)
        assert (status, found) == (200, {"entities": [{"user": "alice"}]})
        for method, path, body in (
            ("POST", "address", {"name": "x", "prefix": "x"}), ("DELETE", "listener/web", None),
            ("GET", "router?router=B", None), ("PATCH", "log/DEFAULT", {"enable": "trace+"}),
        ):  # fmt: skip
            assert door.status(method, path, body, Authorization=login) in (403, 404), path
