"""Bearer tokens: clients log in over TLS by XOAUTH2 (rhea, raw frames) and OAUTHBEARER, with keys from an HTTPS server.

python-qpid-proton has neither mechanism unless it is built with Cyrus SASL and a plugin for it.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop import programs
from tests.interop.programs import Program
from tests.interop.raw_client import SASL, RawClient
from tests.interop.shared import fresh
from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.tokens import AUDIENCE, ISSUER, Issuer, KeysServer, keys_file
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Close, SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

MECHANISMS = ["OAUTHBEARER", "XOAUTH2"]
LIFETIMES_S = (4, 8, 16)
"""Of a token, tried in turn: on a slow machine a client may not log in within the first."""
Started = Callable[..., "Guarded"]


class Guarded:
    """A router whose TLS listener takes tokens of the issuer, as published by the server."""

    def __init__(self, router: RouterProcess, port: int, authority: Authority) -> None:
        self.router = router
        self.port = port
        self.authority = authority
        self.url = f"amqps://127.0.0.1:{port}"

    def raw(self, tls: bool = True) -> RawClient:
        """A client of raw frames, in the SASL exchange."""
        raw = RawClient(self.port, ssl.create_default_context(cafile=str(self.authority.cert)) if tls else None)
        raw.send(SASL)
        assert raw.read(8) == SASL
        return raw

    def login(self, mechanism: str, token: str) -> int:
        """The outcome of a whole exchange."""
        with self.raw() as raw:
            return log_in(raw, mechanism, token)

    def users(self) -> set[tuple[str, str]]:
        """(user, SASL mechanism) of each connection."""
        with ManagementClient(self.router.url, timeout_s=30.0) as client:
            return {(str(row["user"]), str(row["sasl"])) for row in client.query("connection", ["user", "sasl"])}


def log_in(raw: RawClient, mechanism: str, token: str) -> int:
    """The code of the outcome; the offer of mechanisms may be still to read."""
    head = "n,," if mechanism == "OAUTHBEARER" else "user=alice"
    response = f"{head}\x01auth=Bearer {token}\x01\x01".encode()
    raw.put(SaslInit(mechanism=mechanism, initial_response=response))
    answer, _ = raw.frame()
    while isinstance(answer, SaslMechanisms):
        answer, _ = raw.frame()
    if isinstance(answer, SaslChallenge):
        assert (mechanism, answer.challenge) == ("OAUTHBEARER", b'{"status":"invalid_token"}')
        raw.put(SaslResponse(response=b"\x01"))
        answer, _ = raw.frame()
    assert isinstance(answer, SaslOutcome)
    return answer.code


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> KeyPair:
    return authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def server(issuer: Issuer, pair: KeyPair) -> Iterator[KeysServer]:
    with KeysServer(issuer.jwks(), pair) as server:
        yield server


@pytest.fixture
def start(start_router: StartRouter, authority: Authority, pair: KeyPair) -> Started:
    """Start a router with these attributes of its tokenProfile, and of its listener."""

    def started(listener: dict[str, Any] | None = None, **profile: Any) -> Guarded:
        port = free_port()
        files = {"caCertFile": authority.cert, "certFile": pair.cert, "privateKeyFile": pair.key}
        attrs = {"name": "guarded", "host": "127.0.0.1", "port": port, "sslProfile": "tls", "tokenProfile": "tokens"}
        text = section("sslProfile", name="tls", **files)
        text += section("tokenProfile", name="tokens", audience=AUDIENCE, issuer=ISSUER, **profile)
        text += section("listener", **attrs, authenticatePeer=True, **(listener or {}))
        router = start_router(extra=text)
        router.ports.append(port)
        router.wait_listening()
        return Guarded(router, port, authority)

    return started


@pytest.fixture
def guarded(start: Started, server: KeysServer, authority: Authority) -> Guarded:
    """Keys come from the HTTPS server, at most once a second."""
    return start(keysUrl=server.url, caCertFile=authority.cert, minRefreshSeconds=1)


@pytest.fixture
def rhea() -> Iterator[Program]:
    """The program on rhea."""
    made = programs.rhea()
    yield made
    made.end()


def test_rhea_logs_in_and_messages_pass(guarded: Guarded, issuer: Issuer, rhea: Program) -> None:
    who = {"user": "alice", "token": issuer.token(), "ca": str(guarded.authority.cert)}
    where = {"url": guarded.url, "address": fresh(), "count": 5}
    receiving = rhea("receive", **where, **who).wait_ready()
    assert ("alice", "XOAUTH2") in guarded.users()
    assert rhea("send", **where, **who).result()["outcomes"] == {"accepted": 5}
    assert len(receiving.result()["messages"]) == 5


def test_rhea_is_refused(guarded: Guarded, issuer: Issuer, rhea: Program) -> None:
    """With a token that nobody knows, and as somebody else."""
    where = {"url": guarded.url, "address": fresh(), "count": 1, "ca": str(guarded.authority.cert)}
    for user, token in (("alice", Issuer().token()), ("bob", issuer.token())):
        with pytest.raises(AssertionError, match="failed"):
            rhea("receive", **where, user=user, token=token).wait_ready()


def test_connection_after_oauthbearer(guarded: Guarded, issuer: Issuer) -> None:
    with guarded.raw() as raw:
        assert raw.expect(SaslMechanisms).sasl_server_mechanisms == MECHANISMS
        assert log_in(raw, "OAUTHBEARER", issuer.token()) == 0
        raw.open(sasl=False)
        assert ("alice", "OAUTHBEARER") in guarded.users()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_kind_of_token(guarded: Guarded, issuer: Issuer, server: KeysServer, mechanism: str) -> None:
    """Right ones are let in, wrong ones not; the log has the reason and never a token."""
    now = time.time()
    stranger = Issuer()
    refused = {
        "wrong signature": stranger.token(),
        "expired": issuer.token(exp=now - 40, iat=now - 100),
        "not valid yet": issuer.token(nbf=now + 600),
        "no expiry": issuer.token(exp=None),
        "foreign issuer": issuer.token(iss="https://elsewhere.example"),
        "wrong audience": issuer.token(aud="elsewhere"),
        "unknown key id": issuer.token(headers={"kid": "unknown"}),
        "alg none": issuer.forged("none"),
        "HS256 by the public key": issuer.forged("HS256", issuer.pem()),
        "HS256 by the JWKS": issuer.forged("HS256", issuer.jwks()),
        "too long": issuer.token(padding="x" * 12_300),
        "no token": "rubbish",
    }
    codes = {kind: guarded.login(mechanism, token) for kind, token in refused.items()}
    assert codes == dict.fromkeys(refused, 1)
    right = {"right": issuer.token(), "no key id": issuer.token(headers={}), "long": issuer.token(padding="x" * 9000)}
    assert {kind: guarded.login(mechanism, token) for kind, token in right.items()} == dict.fromkeys(right, 0)
    log = guarded.router.log
    for token in [*refused.values(), *right.values()]:
        assert not any(len(part) > 20 and part[-20:] in log for part in token.split("."))
    for reason in ("its signature is wrong", "it has expired", "another issuer", "another audience", "not allowed"):
        assert reason in log
    assert re.search(r"its signature is wrong \[event=token\.refused host=127\.0\.0\.1:\d+ listener=guarded\]", log)


def test_frame_that_is_larger_than_any_token_ends_the_connection(guarded: Guarded) -> None:
    with guarded.raw() as raw:
        raw.expect(SaslMechanisms)
        raw.put(SaslInit(mechanism="XOAUTH2", initial_response=b"x" * 20_000))
        assert raw.read_to_end() == b""


def test_rotated_key(guarded: Guarded, issuer: Issuer, server: KeysServer) -> None:
    assert guarded.login("XOAUTH2", issuer.token()) == 0
    issuer.rotate("second", curve=True)
    server.content = issuer.jwks()
    wait_until(lambda: guarded.login("XOAUTH2", issuer.token()) == 0, what="login by the new key")


def test_changed_file(start: Started, issuer: Issuer, tmp_path: Path) -> None:
    guarded = start(keysFile=keys_file(tmp_path, issuer.pem()))
    assert guarded.login("XOAUTH2", issuer.token()) == 0
    before = issuer.token()
    issuer.rotate("second")
    keys_file(tmp_path, issuer.pem())
    assert guarded.login("XOAUTH2", issuer.token()) == 0
    assert guarded.login("XOAUTH2", before) == 1


def test_service_account_of_kubernetes(
    start: Started, issuer: Issuer, server: KeysServer, authority: Authority, tmp_path: Path
) -> None:
    """The server of the keys wants a token too, as an API server does."""
    server.wanted = "of-the-router"
    (tmp_path / "token").write_text("of-the-router", encoding="utf-8")
    guarded = start(keysUrl=server.url, caCertFile=authority.cert, keysTokenFile=tmp_path / "token")
    pod = {"namespace": "shop", "serviceaccount": {"name": "orders", "uid": "u"}}
    token = issuer.token(sub="system:serviceaccount:shop:orders", aud=[AUDIENCE], **{"kubernetes.io": pod})
    with guarded.raw() as raw:
        assert log_in(raw, "OAUTHBEARER", token) == 0
        raw.open(sasl=False)
        assert ("system:serviceaccount:shop:orders", "OAUTHBEARER") in guarded.users()
    assert guarded.login("OAUTHBEARER", issuer.token(sub="system:serviceaccount:shop:orders", aud="api")) == 1


def test_connection_ends_when_its_token_expires(start: Started, issuer: Issuer, tmp_path: Path) -> None:
    settings = {"keysFile": keys_file(tmp_path, issuer.jwks()), "clockSkewSeconds": 0}
    guarded = start({"idleTimeoutSeconds": 0}, **settings)
    with guarded.raw() as long:
        assert log_in(long, "XOAUTH2", issuer.token()) == 0
        long.open(sasl=False)
        for lifetime_s in LIFETIMES_S:
            with guarded.raw() as short:
                short.expect(SaslMechanisms)
                if log_in(short, "XOAUTH2", issuer.token(exp=time.time() + lifetime_s)) == 0:
                    short.open(sasl=False)
                    closing, _ = short.frame()
                    break
        else:
            pytest.fail("no login within the life of its token")
        assert isinstance(closing, Close)
        error = closing.error
        assert error is not None
        assert (error.condition, error.description) == ("amqp:unauthorized-access", "token expired")
        long.begin()
        long.attach_receiver(fresh())


def test_groups_of_a_token_choose_the_user_group(start: Started, issuer: Issuer, tmp_path: Path) -> None:
    settings = {"keysFile": keys_file(tmp_path, issuer.jwks()), "groupsClaim": "roles"}
    guarded = start({"policyVhost": "guarded"}, **settings)
    groups = {"admins": {"remoteHosts": "*", "sources": "*"}, "staff": {"remoteHosts": "*", "users": "bob"}}
    with ManagementClient(guarded.router.url, timeout_s=30.0) as client:
        client.create("vhost", {"hostname": "guarded", "groups": groups})
        client.update({"enableVhostPolicy": True}, "policy")
    named: dict[str, Any] = {"roles": ["others", "admins"]}
    for claims, allowed in ((named, True), ({}, False), ({"groups": ["admins"]}, False)):
        with guarded.raw() as raw:
            raw.expect(SaslMechanisms)
            assert log_in(raw, "XOAUTH2", issuer.token(**claims)) == 0
            raw.open(sasl=False)
            if allowed:
                raw.begin()
                raw.attach_receiver(fresh())
            else:
                assert raw.close_error()[0] == "amqp:unauthorized-access"
    assert "vhost guarded, group admins" in guarded.router.log


def test_without_tls_no_token_is_taken(guarded: Guarded, issuer: Issuer) -> None:
    with guarded.raw(tls=False) as raw:
        assert not raw.expect(SaslMechanisms).sasl_server_mechanisms
        assert log_in(raw, "XOAUTH2", issuer.token()[:300]) == 1


def test_unreachable_keys_refuse_everybody_and_the_router_serves_others(
    start: Started, issuer: Issuer, authority: Authority
) -> None:
    guarded = start(keysUrl=f"https://127.0.0.1:{free_port()}/keys", caCertFile=authority.cert)
    assert guarded.login("OAUTHBEARER", issuer.token()) == 1
    assert "there are no keys" in wait_until(lambda: guarded.router.log, what="log")
    with Client(guarded.router.url) as bystander:
        bystander.receiver(fresh(), 1)


def test_profile_in_use_is_not_deleted_and_unknown_ones_are_refused(guarded: Guarded) -> None:
    with ManagementClient(guarded.router.url, timeout_s=30.0) as client:
        with pytest.raises(Exception, match="tokenProfile tokens is in use: listener guarded"):
            client.delete("tokenProfile", name="tokens")
        attrs = {"port": "0", "host": "127.0.0.1", "sslProfile": "tls", "tokenProfile": "unknown"}
        with pytest.raises(Exception, match="there is no tokenProfile unknown"):
            client.create("listener", attrs, name="more")
        client.delete("listener", name="guarded")
        client.delete("tokenProfile", name="tokens")
