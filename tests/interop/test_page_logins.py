"""Pages of a listener with `authenticatePeer: yes` are for passwords and tokens, too, over TLS, checked as in SASL."""

from __future__ import annotations

import base64
import http.client
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.certificates import Authority
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

BASIC = 'Basic realm="waymesh", charset="UTF-8"'
BEARER = 'Bearer realm="waymesh"'
WRONG_TOKEN = f'{BEARER}, error="invalid_token"'


class Web:
    """A listener with pages over TLS, the users alice and jürgen, and an issuer of tokens."""

    def __init__(self, start: StartRouter, folder: Path, **listener: Any) -> None:
        self.port, self.issuer = free_port(), Issuer()
        self.authority = Authority(folder)
        pair = self.authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))
        users, keys, root = folder / "users", folder / "keys.pem", folder / "console"
        users.write_text("alice:{plain}secret\njürgen:{plain}ä:ö\n", encoding="utf-8")
        keys.write_bytes(self.issuer.pem())
        root.mkdir()
        (root / "index.html").write_text("<p>", encoding="utf-8")
        files = {"caCertFile": self.authority.cert, "certFile": pair.cert, "privateKeyFile": pair.key}
        text = section("sslProfile", name="tls", **files)
        text += section("tokenProfile", name="tokens", audience=AUDIENCE, issuer=ISSUER, keysFile=keys)
        attrs = {"name": "web", "host": "127.0.0.1", "port": self.port, "http": True, "authenticatePeer": True,
                 "sslProfile": "tls", "tokenProfile": "tokens", "usersFile": users, "httpRootDir": root}  # fmt: skip
        self.router: RouterProcess = start(extra=text + section("listener", **{**attrs, **listener}))
        self.router.ports.append(self.port)
        self.router.wait_listening()

    def get(self, path: str = "/index.html", method: str = "GET", **fields: str) -> http.client.HTTPResponse:
        context = ssl.create_default_context(cafile=str(self.authority.cert))
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=30, context=context)
        connection.request(method, path, headers=fields)
        response = connection.getresponse()
        response.body = response.read()  # type: ignore[attr-defined]
        connection.close()
        return response

    def status(self, authorization: str, **fields: str) -> int:
        return self.get(Authorization=authorization, **fields).status


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def web(start_router: StartRouter, tmp_path: Path) -> Callable[..., Web]:
    return lambda **listener: Web(start_router, tmp_path, **listener)


def test_passwords_and_tokens_open_pages(web: Callable[..., Web]) -> None:
    one = web()
    for login in (basic("alice", "secret"), basic("jürgen", "ä:ö"), f"bearer {one.issuer.token()}"):
        response = one.get(Authorization=login)
        assert (response.status, response.body) == (200, b"<p>")  # type: ignore[attr-defined]
        assert one.get("/metrics", "HEAD", Authorization=login).status == 200
        assert one.get("/", "POST", Authorization=login).status == 405
    assert one.get().headers.get_all("WWW-Authenticate") == [BASIC, BEARER]


def test_all_others_are_refused_alike(web: Callable[..., Web]) -> None:
    one = web()
    token = one.issuer.token
    wrong = [
        basic("alice", "wrong"), basic("nobody", "secret"), basic("alice", ""), basic("", "secret"), basic("", ""),
        basic("alice\0", "secret"), basic("x\0alice", "secret"), basic("alice", "secret\0"), basic("alice", "x" * 600),
        "Basic", "Basic alice:secret", "Basic !!!!", "Basic " + base64.b64encode(b"alice").decode(), "Digest x",
        basic("alice", "secret") + ", " + basic("alice", "secret"), "Bearer", "Bearer x", "Bearer " + "x" * 9000,
        f"Bearer {token()}x", f"Bearer {token(aud='other')}", f"Bearer {token(exp=time.time() - 999)}",
        f"Bearer {one.issuer.forged('none')}", f"Bearer {token()} {token()}", f"Bearer ,{token()}",
    ]  # fmt: skip
    for login in wrong:
        response = one.get(Authorization=login)
        assert response.status == 401, login
        assert response.headers.get_all("WWW-Authenticate") == [BASIC, WRONG_TOKEN]
        assert response.body == b"the login is not accepted\n"  # type: ignore[attr-defined]
    wait_until(lambda: "event=authentication.failed" in one.router.log)
    assert "user=alice" in one.router.log, "of a known user"
    assert "user=nobody" not in one.router.log
    assert "wrong" not in one.router.log
    assert one.status(basic("alice", "secret")) == 200


@pytest.mark.parametrize(("mechanisms", "password", "token"), [
    ("PLAIN OAUTHBEARER", 200, 200), ("SCRAM-SHA-256 XOAUTH2", 401, 200), ("OAUTHBEARER", 401, 200),
])  # fmt: skip
def test_the_mechanisms_of_the_listener_count(
    web: Callable[..., Web], mechanisms: str, password: int, token: int
) -> None:
    one = web(saslMechanisms=mechanisms)
    assert one.status(basic("alice", "secret")) == password
    assert one.status(f"Bearer {one.issuer.token()}") == token
    schemes = ([BASIC] if password == 200 else []) + ([BEARER] if token == 200 else [])
    assert one.get().headers.get_all("WWW-Authenticate") == (schemes or ["TLS-Client-Certificate"])


def test_a_page_of_another_origin_gets_nothing_whoever_reads_it(web: Callable[..., Web]) -> None:
    one = web(allowedOrigins="https://ours.example")
    own = f"https://localhost:{one.port}"
    for login in (basic("alice", "secret"), f"Bearer {one.issuer.token()}"):
        for origin, status in ((own, 200), ("https://ours.example", 200), ("https://evil.example", 403), ("null", 403)):
            assert one.status(login, Origin=origin) == status


@pytest.mark.parametrize("insecure", [True, False])
def test_without_tls_there_is_no_login(start_router: StartRouter, tmp_path: Path, insecure: bool) -> None:
    users, port = tmp_path / "users", free_port()
    users.write_text("alice:{plain}secret\n", encoding="utf-8")
    text = section("listener", name="web", host="127.0.0.1", port=port, http=True, usersFile=users,
                   authenticatePeer=True, allowInsecurePlain=insecure)  # fmt: skip
    router = start_router(extra=text)
    router.ports.append(port)
    router.wait_listening()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics", headers={"Authorization": basic("alice", "secret")})
    response = connection.getresponse()
    assert (response.status, response.headers["WWW-Authenticate"]) == (401, "TLS-Client-Certificate")
