"""Authentication: SASL ANONYMOUS, PLAIN, SCRAM and EXTERNAL, TLS with and without client certificates."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import proton
import pytest

from tests.interop.raw_client import AMQP, SASL, RawClient
from tests.interop.shared import fresh
from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import Client
from tests.kit.fixtures import StartRouter
from tests.kit.mesh import Mesh, wait_address
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_amqp.performatives import Open, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from waymesh_amqp.sasl import make_line
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

SECURE = "saslMechanisms: EXTERNAL\n    sslProfile: tls"
SCRAM = ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class Guarded:
    """A router with a plain listener for ourselves, and `port` where one has to be let in."""

    def __init__(self, router: RouterProcess, port: int) -> None:
        self.router = router
        self.port = port
        router.ports.append(port)
        router.wait_listening()

    def users(self) -> set[tuple[str, str, bool]]:
        """(user, SASL mechanism, encrypted) of each connection."""
        with ManagementClient(self.router.url, timeout_s=30.0) as client:
            rows = client.query("connection", ["user", "sasl", "isEncrypted"])
        return {(str(row["user"]), str(row["sasl"]), bool(row["isEncrypted"])) for row in rows}


def passes(client: Client) -> None:
    """A message passes."""
    address = fresh()
    receiver = client.receiver(address, 1)
    sent = client.sender(address).send("x")
    receiver.next().accept()
    assert sent.outcome() == "accepted"


# ---- passwords
@pytest.fixture
def by_password(start_router: StartRouter, tmp_path: Path) -> Guarded:
    """Passwords may be sent without TLS."""
    return with_users(start_router, tmp_path, allowInsecurePlain=True)


def with_users(start_router: StartRouter, tmp_path: Path, **listener: bool) -> Guarded:
    """Users: alice with a SCRAM-SHA-256 key, bob in plain text (so that any mechanism can check him)."""
    lines = [make_line("alice", "wonderland", iterations=4096), make_line("bob", "pässword", "plain")]
    (tmp_path / "mesh.users").write_text("\n".join(lines), encoding="utf-8")
    port = free_port()
    router = start_router(
        extra=section("listener", name="guarded", host="127.0.0.1", port=port, authenticatePeer=True,
                      saslMechanisms="PLAIN SCRAM-SHA-1 SCRAM-SHA-256 SCRAM-SHA-512", **listener)
    )  # fmt: skip
    router.stop()
    text = router.config_path.read_text(encoding="utf-8")
    text = text.replace("mode:", f"saslConfigDir: {tmp_path}\n    saslConfigName: mesh\n    mode:", 1)
    router.config_path.write_text(text, encoding="utf-8")
    return Guarded(router.start(), port)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_right_password(by_password: Guarded, mechanism: str) -> None:
    with RawClient(by_password.port) as raw:
        assert raw.login(mechanism, "bob", "pässword").code == 0
        raw.open(sasl=False)
        raw.begin()
        raw.attach_receiver(fresh())
        assert ("bob", mechanism, False) in by_password.users()


def test_stored_key(by_password: Guarded) -> None:
    with RawClient(by_password.port) as raw:
        assert raw.login("SCRAM-SHA-256", "alice", "wonderland").code == 0
        raw.open(sasl=False)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize(("user", "password"), [("bob", "wrong"), ("nobody", "x"), ("bob", "passwor")])
def test_wrong_password(by_password: Guarded, mechanism: str, user: str, password: str) -> None:
    with RawClient(by_password.port) as raw:
        assert raw.login(mechanism, user, password).code == 1
        assert raw.read_to_end() == b""


def test_passwords_are_not_sent_without_tls(start_router: StartRouter, tmp_path: Path) -> None:
    guarded = with_users(start_router, tmp_path)
    wait_until(lambda: "saslMechanisms: PLAIN is not offered without TLS" in guarded.router.log)
    with RawClient(guarded.port) as raw:
        raw.send(SASL)
        raw.read(8)
        assert set(raw.expect(SaslMechanisms).sasl_server_mechanisms) == set(SCRAM)
        raw.put(SaslInit(mechanism="PLAIN", initial_response="\0bob\0pässword".encode()))
        assert raw.expect(SaslOutcome).code == 1


def test_no_common_mechanism(by_password: Guarded) -> None:
    client = Client(f"amqp://127.0.0.1:{by_password.port}", wait=False, allowed_mechs="ANONYMOUS")
    assert "amqp:unauthorized-access" in (client.wait_ended() or "")
    client.close()


def test_mechanism_that_was_not_offered(by_password: Guarded) -> None:
    with RawClient(by_password.port) as raw:
        raw.send(SASL)
        raw.read(8)
        raw.expect(SaslMechanisms)
        raw.put(SaslInit(mechanism="ANONYMOUS"))
        assert raw.expect(SaslOutcome).code == 1


def test_no_sasl_where_it_is_required(by_password: Guarded) -> None:
    with RawClient(by_password.port) as raw:
        raw.send(AMQP)
        assert raw.read_to_end() == SASL


@pytest.mark.parametrize("mechanisms", ["", "ANONYMOUS", "ANONYMOUS PLAIN"])
def test_nobody_is_anonymous_where_peers_authenticate(start_router: StartRouter, mechanisms: str) -> None:
    """Without users nobody can: the router says so when it starts, and refuses each client."""
    port = free_port()
    said = {"saslMechanisms": mechanisms} if mechanisms else {}
    listener = section("listener", name="guarded", host="127.0.0.1", port=port, authenticatePeer=True, **said)
    guarded = Guarded(start_router(extra=listener), port)
    wait_until(lambda: "listener guarded: authenticatePeer: yes: every client is refused" in guarded.router.log)
    with RawClient(port) as raw:
        raw.send(SASL)
        assert raw.read(8) == SASL
        assert not raw.expect(SaslMechanisms).sasl_server_mechanisms
        raw.put(SaslInit(mechanism="ANONYMOUS"))
        assert raw.expect(SaslOutcome).code == 1
    with RawClient(port) as raw:
        raw.send(AMQP)
        assert raw.read_to_end() == SASL
    client = Client(f"amqp://127.0.0.1:{port}", wait=False)
    assert client.wait_ended()
    client.close()


@pytest.mark.parametrize(
    "bad",
    [
        Open(container_id="too early"),
        SaslResponse(response=b"not asked"),
        SaslInit(mechanism="PLAIN", initial_response=b"\x00no end"),
        SaslInit(mechanism="SCRAM-SHA-256", initial_response=b"n,,rubbish"),
        SaslOutcome(code=0),
    ],
    ids=["open", "response", "plain", "scram", "outcome"],
)
def test_broken_exchange_ends_the_connection_only(by_password: Guarded, bad: Any) -> None:
    with RawClient(by_password.port) as raw, Client(by_password.router.url) as bystander:
        raw.send(SASL)
        raw.read(8)
        raw.expect(SaslMechanisms)
        raw.put(bad)
        raw.read_to_end()
        passes(bystander)


# ---- TLS
@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom the routers trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> KeyPair:
    """The routers' certificate."""
    return authority.issue("server", {"CN": "localhost"}, ("localhost", "127.0.0.1"))


@pytest.fixture(scope="module")
def worker(authority: Authority) -> KeyPair:
    """A client's certificate."""
    return authority.issue("worker", {"O": "Example", "CN": "worker"})


def tls_profile(authority: Authority, pair: KeyPair, **more: object) -> str:
    """Configuration text of an sslProfile called `tls`."""
    files = {"caCertFile": authority.cert, "certFile": pair.cert, "privateKeyFile": pair.key}
    return section("sslProfile", name="tls", **files, **more)


def client_domain(authority: Authority, pair: KeyPair | None = None) -> proton.SSLDomain:
    """What a proton client trusts and shows."""
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(authority.cert))
    domain.set_peer_authentication(proton.SSLDomain.VERIFY_PEER)
    if pair is not None:
        domain.set_credentials(str(pair.cert), str(pair.key), None)
    return domain


@pytest.fixture
def encrypted(start_router: StartRouter, authority: Authority, server: KeyPair) -> Guarded:
    """TLS is asked for, a client certificate is not."""
    port = free_port()
    listener = section("listener", name="tls", host="127.0.0.1", port=port, sslProfile="tls", requireSsl=True)
    return Guarded(start_router(extra=tls_profile(authority, server) + listener), port)


@pytest.fixture
def by_certificate(start_router: StartRouter, authority: Authority, server: KeyPair) -> Guarded:
    """A client certificate is the only way in; the user is its common name."""
    port = free_port()
    listener = section(
        "listener", name="tls", host="127.0.0.1", port=port, sslProfile="tls", requireSsl=True,
        authenticatePeer=True, saslMechanisms="EXTERNAL",
    )  # fmt: skip
    return Guarded(start_router(extra=tls_profile(authority, server, uidFormat="n") + listener), port)


def test_tls(encrypted: Guarded, authority: Authority) -> None:
    url = f"amqps://127.0.0.1:{encrypted.port}"
    with Client(url, ssl_domain=client_domain(authority), allowed_mechs="ANONYMOUS") as client:
        passes(client)
        assert ("anonymous", "ANONYMOUS", True) in encrypted.users()


def test_large_messages_over_tls(encrypted: Guarded, authority: Authority) -> None:
    address, body = fresh(), bytes(range(256)) * 20_000
    url = f"amqps://127.0.0.1:{encrypted.port}"
    with (
        Client(url, ssl_domain=client_domain(authority), allowed_mechs="ANONYMOUS") as secure,
        Client(encrypted.router.url) as plain,
    ):
        for sending, receiving in ((secure, plain), (plain, secure)):
            receiver = receiving.receiver(address, 1, name=f"to {sending is plain}")
            sent = sending.sender(address).send(body)
            received = receiver.next()
            assert bytes(received.body) == body
            received.accept()
            assert sent.outcome() == "accepted"
            receiver.close()


def test_encryption_is_required(
    start_router: StartRouter, authority: Authority, server: KeyPair, worker: KeyPair
) -> None:
    """Together with authentication, and mechanisms left to the router: a certificate is a way in, no name is none."""
    port = free_port()
    listener = section(
        "listener", name="tls", host="127.0.0.1", port=port, sslProfile="tls", requireEncryption=True,
        authenticatePeer=True,
    )  # fmt: skip
    guarded = Guarded(start_router(extra=tls_profile(authority, server, uidFormat="n") + listener), port)
    assert "every client is refused" not in guarded.router.log
    for first in (SASL, AMQP):
        with RawClient(port) as raw:
            raw.send(first)
            assert not raw.read_to_end().startswith(b"AMQP")
    url = f"amqps://127.0.0.1:{port}"
    with Client(url, ssl_domain=client_domain(authority, worker)) as client:
        passes(client)
        assert ("worker", "EXTERNAL", True) in guarded.users()
    stranger = Client(url, wait=False, ssl_domain=client_domain(authority), allowed_mechs="ANONYMOUS")
    assert stranger.wait_ended()
    stranger.close()


def test_plain_client_at_a_tls_port_is_refused(encrypted: Guarded) -> None:
    with RawClient(encrypted.port) as raw, Client(encrypted.router.url) as bystander:
        raw.send(SASL)
        assert not raw.read_to_end().startswith(b"AMQP")
        passes(bystander)


def test_certificate_of_an_unknown_authority_is_refused_by_the_client(encrypted: Guarded, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "Stranger")
    url = f"amqps://127.0.0.1:{encrypted.port}"
    client = Client(url, wait=False, ssl_domain=client_domain(stranger), allowed_mechs="ANONYMOUS")
    assert "certificate verify failed" in (client.wait_ended() or "")
    client.close()


def test_client_certificate(by_certificate: Guarded, authority: Authority, worker: KeyPair) -> None:
    url = f"amqps://127.0.0.1:{by_certificate.port}"
    with Client(url, ssl_domain=client_domain(authority, worker), allowed_mechs="EXTERNAL") as client:
        passes(client)
        assert ("worker", "EXTERNAL", True) in by_certificate.users()


def test_a_client_certificate_without_the_parts_of_uid_format(by_certificate: Guarded, authority: Authority) -> None:
    url = f"amqps://127.0.0.1:{by_certificate.port}"
    nameless = authority.issue("nameless", {"O": "Example"})
    with Client(url, ssl_domain=client_domain(authority, nameless), allowed_mechs="EXTERNAL") as client:
        passes(client)
        assert ("anonymous", "EXTERNAL", True) in by_certificate.users()


def test_no_client_certificate(by_certificate: Guarded, authority: Authority) -> None:
    url = f"amqps://127.0.0.1:{by_certificate.port}"
    client = Client(url, wait=False, ssl_domain=client_domain(authority), allowed_mechs="EXTERNAL")
    assert client.wait_ended()
    client.close()


def test_client_certificate_of_an_unknown_authority(
    by_certificate: Guarded, authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "Stranger").issue("stranger", {"CN": "worker"})
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.load_cert_chain(stranger.cert, stranger.key)
    with pytest.raises((ssl.SSLError, AssertionError, ConnectionError)):  # TLS 1.3: seen at the first read
        _first_answer(by_certificate.port, context)


def _first_answer(port: int, context: ssl.SSLContext) -> bytes:
    with RawClient(port, context) as raw:
        raw.send(SASL)
        return raw.read(8)


def test_mesh_over_tls(tmp_path: Path, authority: Authority, server: KeyPair) -> None:
    """Routers that know each other by certificate; one without any does not get in."""
    mesh = Mesh(tmp_path, 2, "line")
    for router in mesh.routers:
        text = router.config_path.read_text(encoding="utf-8").replace("saslMechanisms: ANONYMOUS", SECURE)
        router.config_path.write_text(tls_profile(authority, server) + text, encoding="utf-8")
    try:
        mesh.start()
        address = fresh()
        with Client(mesh["A"].url) as sending, Client(mesh["B"].url) as receiving:
            receiver = receiving.receiver(address, 10)
            wait_address(mesh["A"], address, remote=1)
            sent = sending.sender(address).send(b"x" * 100_000)
            assert len(receiver.next().body) == 100_000
            assert not sent.settled.is_set()
        with ManagementClient(mesh["A"].url, timeout_s=30.0) as client:
            rows = client.query("connection", ["role", "isEncrypted", "isAuthenticated", "sasl"])
        assert [(r["isEncrypted"], r["sasl"]) for r in rows if r["role"] == "inter-router"] == [(True, "EXTERNAL")]
    finally:
        mesh.stop()

