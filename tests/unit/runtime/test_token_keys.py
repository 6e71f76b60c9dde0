"""The keys of a tokenProfile: from files and from real HTTP(S) servers, changed, rotated, missing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from tests.kit.certificates import Authority, KeyPair
from tests.kit.tokens import Issuer, KeysServer, keys_file
from tests.kit.waiting import DEADLINE_S
from waymesh_router.runtime.errors import HostError
from waymesh_router.runtime.tokens import keys as token_keys
from waymesh_router.runtime.tokens.keys import MAX_BYTES, FileSource, Keys, KeysError, Source, UrlSource, parse_keys
from waymesh_router.runtime.tokens.profiles import TokenProfile
from waymesh_schema.entities import entity_type
from waymesh_schema.errors import SchemaError
from waymesh_schema.validate import validate_create

pytestmark = pytest.mark.engine_independent


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers is waited for, however slow the machine is."""
    for limit in ("STEP_S", "REQUEST_S", "WAIT_S"):
        monkeypatch.setattr(token_keys, limit, DEADLINE_S)


class Kept:
    """Keys, a clock that the test sets, and the reported lines."""

    def __init__(self, source: Source, keep_s: float = 3600.0) -> None:
        self.now = 1000.0
        self.reports: list[tuple[str, str]] = []
        self.keys = Keys(source, keep_s, lambda level, text: self.reports.append((level, text)), lambda: self.now)

    def has(self, kid: str, algorithm: str = "RS256") -> bool:
        return bool(self.keys.find(kid, algorithm))


def profile(**attrs: Any) -> dict[str, Any]:
    given = {"name": "t", "audience": "a", "issuer": "i", **attrs}
    return validate_create(entity_type("tokenProfile"), given)


def at_url(server: KeysServer, **attrs: Any) -> Kept:
    return Kept(UrlSource(profile(keysUrl=server.url, **attrs)))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> KeyPair:
    return authority.issue("keys", {"CN": "keys"}, ("127.0.0.1",))


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def secure(issuer: Issuer, pair: KeyPair) -> Iterator[KeysServer]:
    with KeysServer(issuer.jwks(), pair) as server:
        yield server


# ---- files
def test_changed_file(tmp_path: Path, issuer: Issuer) -> None:
    kept = Kept(FileSource(str(keys_file(tmp_path, issuer.jwks()))))
    assert kept.has("first")
    assert not kept.keys.due()
    issuer.rotate("second")
    keys_file(tmp_path, issuer.jwks())
    assert kept.keys.due()
    assert kept.has("second")
    assert kept.has("first")


def test_removed_file_counts_for_a_while_and_is_read_when_it_is_back(tmp_path: Path, issuer: Issuer) -> None:
    path = keys_file(tmp_path, issuer.jwks())
    kept = Kept(FileSource(str(path)), keep_s=60)
    assert kept.has("first")
    path.unlink()
    assert kept.has("first")
    kept.now += 60
    assert kept.has("first")
    kept.now += 3
    assert not kept.has("first")
    assert [level for level, _ in kept.reports] == ["error", "error"]
    assert "stay in use for at most 60 s" in kept.reports[0][1]
    assert "there are no keys" in kept.reports[1][1]
    keys_file(tmp_path, issuer.jwks())
    assert kept.has("first")
    assert kept.reports[-1][0] == "notice"


def test_file_that_is_no_keys(tmp_path: Path, issuer: Issuer) -> None:
    kept = Kept(FileSource(str(keys_file(tmp_path, issuer.jwks()))))
    assert kept.has("first")
    keys_file(tmp_path, b"rubbish")
    assert kept.has("first")
    assert "neither" in kept.reports[0][1] or "no usable" in kept.reports[0][1]


def test_unusable_file_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"tokenProfile t: keysFile: .*missing: No such file"):
        TokenProfile(profile(keysFile=str(tmp_path / "missing")), lambda *_: None, lambda: 0.0)


@pytest.mark.parametrize(("content", "reason"), [(None, "No such file"), (b"rubbish", "")])
def test_unusable_authorities_are_an_error_at_the_start(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    attrs = profile(keysUrl="https://127.0.0.1:1/keys", caCertFile=str(path))
    with pytest.raises(HostError, match=rf"tokenProfile t: keysUrl: .*caCertFile: .*ca\.pem: .*{reason}"):
        TokenProfile(attrs, lambda *_: None, lambda: 0.0)


def test_the_library_is_missing(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("waymesh_router.runtime.tokens.check", "waymesh_router.runtime.tokens.keys"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(sys.modules["waymesh_router.runtime.tokens"], name.rpartition(".")[2], raising=False)
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(HostError, match="tokenProfile t: needs PyJWT and cryptography, the extra `oauth` of waymesh"):
        TokenProfile(profile(keysFile=str(keys_file(tmp_path, issuer.jwks()))), lambda *_: None, lambda: 0.0)


# ---- URLs
def test_url(secure: KeysServer, authority: Authority) -> None:
    kept = at_url(secure, caCertFile=str(authority.cert))
    assert kept.has("first")
    assert kept.has("first")
    assert [request["path"] for request in secure.requests] == ["/keys?all=1"]
    assert "Authorization" not in secure.requests[0]


def test_rotated_key_is_read_at_the_first_token_with_it(
    secure: KeysServer, authority: Authority, issuer: Issuer
) -> None:
    kept = at_url(secure, caCertFile=str(authority.cert))
    assert kept.has("first")
    kept.now += 30
    issuer.rotate("second")
    secure.content = issuer.jwks()
    assert kept.has("second")


def test_unknown_keys_cause_few_requests(secure: KeysServer, authority: Authority) -> None:
    kept = at_url(secure, caCertFile=str(authority.cert), minRefreshSeconds=30)
    for number in range(20):
        assert not kept.has(f"unknown {number}")
    assert len(secure.requests) == 1
    kept.now += 30
    assert not kept.has("unknown")
    assert not kept.has("unknown")
    assert len(secure.requests) == 2


def test_keys_are_read_again_and_removed_ones_forgotten(
    secure: KeysServer, authority: Authority, issuer: Issuer
) -> None:
    kept = at_url(secure, caCertFile=str(authority.cert), refreshSeconds=300)
    assert kept.has("first")
    issuer.published.clear()
    issuer.rotate("second")
    secure.content = issuer.jwks()
    kept.now += 299
    assert not kept.keys.due()
    kept.now += 1
    assert kept.keys.due()
    kept.keys.refresh()
    assert not kept.has("first")
    assert kept.has("second")


@pytest.mark.parametrize(("status", "content"), [(500, b""), (302, b""), (200, b"{}"), (200, b" " * (MAX_BYTES + 1))])
def test_failing_url_keeps_the_keys_for_a_while(
    secure: KeysServer, authority: Authority, status: int, content: bytes
) -> None:
    kept = at_url(secure, caCertFile=str(authority.cert))
    kept.keys._keep_s = 60
    assert kept.has("first")
    good, secure.content, secure.status = secure.content, content, status
    kept.now += 300
    kept.keys.refresh()
    assert kept.has("first")
    assert kept.reports[0][0] == "error"
    kept.now += 61
    assert not kept.has("first")
    assert {request["path"] for request in secure.requests} == {"/keys?all=1"}  # no redirect was followed
    secure.content, secure.status = good, 200
    kept.now += 30
    assert kept.has("first")


def test_server_of_an_unknown_authority(secure: KeysServer, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "Stranger")
    kept = at_url(secure, caCertFile=str(stranger.cert))
    assert not kept.has("first")
    assert "certificate verify failed" in kept.reports[0][1]
    assert not secure.requests


def test_server_with_a_certificate_for_another_host(issuer: Issuer, authority: Authority) -> None:
    with KeysServer(issuer.jwks(), authority.issue("other", {"CN": "other"}, ("other.example",))) as server:
        kept = at_url(server, caCertFile=str(authority.cert))
        assert not kept.has("first")
        assert "certificate verify failed" in kept.reports[0][1]


def test_nobody_answers(secure: KeysServer, authority: Authority) -> None:
    kept = at_url(secure, caCertFile=str(authority.cert))
    secure.__exit__()
    assert not kept.has("first")
    assert "there are no keys" in kept.reports[0][1]
    secure.__enter__()


def test_token_for_the_request(secure: KeysServer, authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("of-the-pod\n")
    kept = at_url(secure, caCertFile=str(authority.cert), keysTokenFile=str(path))
    assert kept.has("first")
    path.write_text("of-the-pod-later")
    kept.now += 300
    kept.keys.refresh()
    assert [request["Authorization"] for request in secure.requests] == ["Bearer of-the-pod", "Bearer of-the-pod-later"]


@pytest.mark.parametrize("content", [b"se\ncret", "schlüssel".encode()])
def test_unusable_token_for_the_request_is_not_shown(
    secure: KeysServer, authority: Authority, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    kept = at_url(secure, caCertFile=str(authority.cert), keysTokenFile=str(path))
    assert not kept.has("first")
    assert "cret" not in kept.reports[0][1]
    assert "schl" not in kept.reports[0][1]


def test_http_on_loopback(issuer: Issuer) -> None:
    with KeysServer(issuer.jwks()) as server:
        assert at_url(server).has("first")


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({}, "one of keysFile and keysUrl"),
        ({"keysFile": "/k", "keysUrl": "https://h/"}, "one of keysFile and keysUrl"),
        ({"keysUrl": "http://issuer.example/keys"}, "must be https"),
        ({"keysUrl": "http://localhost/keys"}, "must be https"),
        ({"keysUrl": "file:///etc/passwd"}, "not a URL"),
        ({"keysUrl": "ftp://h/keys"}, "must be https"),
        ({"keysUrl": "https://"}, "not a URL"),
        ({"keysUrl": "https://user:pass@h/keys"}, "not a URL"),
        ({"keysUrl": "https://h:99999/keys"}, "not a URL"),
        ({"keysUrl": "https://h/a b"}, "not a URL"),
        ({"keysFile": "/k", "caCertFile": "/ca"}, "only for a keysUrl"),
        ({"keysUrl": "http://127.0.0.1/", "keysTokenFile": "/t"}, "only for a keysUrl with https"),
        ({"keysFile": "/k", "issuer": ""}, "must not be empty"),
        ({"keysFile": "/k", "audience": None}, "required"),
        ({"keysFile": "/k", "refreshSeconds": 10, "minRefreshSeconds": 20}, "not be more than refreshSeconds"),
    ],
)
def test_refused_configurations(attrs: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        profile(**attrs)


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"tokenProfile": "t"}, "needs an sslProfile"),
        ({"tokenProfile": "t", "sslProfile": "s", "saslMechanisms": "PLAIN"}, "none of OAUTHBEARER XOAUTH2"),
        ({"saslMechanisms": "PLAIN XOAUTH2"}, "XOAUTH2: needs a tokenProfile"),
        ({"tokenProfile": "t", "sslProfile": "s", "http": True, "websockets": False}, "not possible with http"),
    ],
)
def test_refused_listeners(attrs: dict[str, Any], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        validate_create(entity_type("listener"), {"name": "l", **attrs})


# ---- content
def test_keys_for_other_purposes_are_left_out(issuer: Issuer) -> None:
    good = issuer.jwk()
    others = [
        {**good, "use": "enc"}, {**good, "alg": "RSA-OAEP"}, {**good, "kty": "OKP"}, {**good, "kid": 5}, "text", {},
        {**good, "key_ops": ["sign"]}, {**good, "n": "AQAB"}, {**good, "alg": "ES256"},
    ]  # fmt: skip
    assert len(parse_keys(json.dumps({"keys": [*others, good]}).encode())) == 1
    with pytest.raises(KeysError, match="no usable public key"):
        parse_keys(json.dumps({"keys": others}).encode())


@pytest.mark.parametrize(
    "private", [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}, {"kty": "oct"}, {"d": "AQAB"}, {"p": "AQAB"}]
)
def test_published_secrets_are_refused(issuer: Issuer, private: dict[str, Any]) -> None:
    with pytest.raises(KeysError, match="private or symmetric"):
        parse_keys(json.dumps({"keys": [issuer.jwk(), {**issuer.jwk(), **private}]}).encode())


def test_private_pem_is_refused(issuer: Issuer) -> None:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with pytest.raises(KeysError, match="only public keys"):
        parse_keys(issuer.key.private_bytes(*form))


def test_pem_with_several_keys(issuer: Issuer) -> None:
    second = Issuer()
    second.rotate("curve", curve=True)
    assert [key.kind for key in parse_keys(issuer.pem() + b"\n" + second.pem())] == ["RSA", "secp256r1"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff", b"{", b'{"keys": 5}', b'{"keys": []}', b"{" * 9000, b'{"a":' * 9000,
        b"-----BEGIN PUBLIC KEY-----\nrubbish\n-----END PUBLIC KEY-----",
    ],
)  # fmt: skip
def test_rubbish(content: bytes) -> None:
    with pytest.raises(KeysError):
        parse_keys(content)
