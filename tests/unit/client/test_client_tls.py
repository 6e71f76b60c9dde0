"""TLS of the management client: trusted and untrusted servers, and its own certificate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import proton
import pytest
from cryptography.hazmat.primitives import serialization

from tests.kit.certificates import Authority
from tests.unit.client.fake_server import FakeServer, agent_answer
from tests.unit.management.fake_router import Bench
from waymesh_client.channel import Tls
from waymesh_client.errors import ConnectionFailed, UnusableFile
from waymesh_client.management import ManagementClient
from waymesh_operator.cli.main import run_command

pytestmark = pytest.mark.engine_independent


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Iterator[FakeServer]:
    pair = authority.issue("server", {"CN": "router"}, ("127.0.0.1", "localhost"))
    domain = proton.SSLDomain(proton.SSLDomain.MODE_SERVER)
    domain.set_credentials(str(pair.cert), str(pair.key), None)
    with FakeServer(agent_answer(Bench().agent), tls=domain) as server:
        yield server


def test_a_router_of_a_trusted_authority(server: FakeServer, authority: Authority) -> None:
    with ManagementClient(f"amqps://localhost:{server.port}", tls=Tls(ca=str(authority.cert))) as client:
        assert client.read("router")["id"] == "A"


def test_options(server: FakeServer, authority: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["stat", "-b", f"localhost:{server.port}", "--ssl-trustfile", str(authority.cert)]) == 0
    assert "Router Statistics" in capsys.readouterr().out


def test_a_router_of_an_unknown_authority(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    tls = Tls(ca=str(Authority(tmp_path / "other", "Other CA").cert))
    with pytest.raises(ConnectionFailed, match="certificate"), ManagementClient(server.url, tls=tls):
        pass


def test_no_verification_when_asked(server: FakeServer) -> None:
    with ManagementClient(server.url, tls=Tls(verify=False)) as client:
        assert client.read("router")["id"] == "A"


@pytest.mark.parametrize("named", [True, False])
def test_another_name_when_asked(
    server: FakeServer, authority: Authority, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """The certificate is checked, its name is not; also against the authorities that the system trusts."""
    if not named:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.cert))
    strict = Tls(str(authority.cert) if named else None, server_name="elsewhere")
    lenient = replace(strict, verify_name=False)
    with pytest.raises(ConnectionFailed, match="certificate"), ManagementClient(server.url, tls=strict):
        pass
    with ManagementClient(server.url, tls=lenient) as client:
        assert client.read("router")["id"] == "A"


def test_a_name_that_is_not_checked_leaves_the_authority_to_be_checked(server: FakeServer) -> None:
    tls = Tls(verify_name=False)
    with pytest.raises(ConnectionFailed, match="certificate"), ManagementClient(server.url, tls=tls):
        pass


def test_files_that_cannot_be_used_are_named(authority: Authority, tmp_path: Path) -> None:
    """Before anything is connected, and nobody is asked for the password of a key."""
    pair, other = authority.issue("a", {"CN": "a"}), authority.issue("b", {"CN": "b"})
    cert, key, ca = str(pair.cert), str(pair.key), str(authority.cert)
    encrypted = encrypted_copy(pair.key)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("hello\n", encoding="ascii")
    for tls, text in (
        (Tls(ca="/no/such/file"), "trusted certificates /no/such/file: No such file or directory"),
        (Tls(ca=str(tmp_path)), f"trusted certificates {tmp_path}: Is a directory"),
        (Tls(ca=str(wrong)), f"trusted certificates {wrong}: not a certificate in PEM format"),
        (Tls(ca=ca, certificate="/no/cert"), "client certificate /no/cert: No such file or directory"),
        (Tls(certificate=str(wrong), key=key), f"client certificate {wrong}: not a certificate in PEM format"),
        (Tls(certificate=cert, key="/no/key"), "private key /no/key: No such file or directory"),
        (Tls(certificate=cert), f"private key {cert}: not a key in PEM format, or its password is missing"),
        (
            Tls(certificate=cert, key=str(other.key)),
            f"private key {other.key}: is not that of client certificate {cert}",
        ),
        (
            Tls(certificate=cert, key=encrypted),
            f"private key {encrypted}: not a key in PEM format, or its password is missing",
        ),
        (
            Tls(certificate=cert, key=encrypted, key_password="no"),
            f"private key {encrypted}: not a key in PEM format, or its password is not right for it",
        ),
    ):
        with pytest.raises(UnusableFile) as raised, ManagementClient("amqps://127.0.0.1:1", tls=tls):
            pass
        assert str(raised.value) == text
    for tls in (Tls(ca, cert, key), Tls(ca, cert, encrypted, "secret")):
        with pytest.raises(ConnectionFailed), ManagementClient("amqps://127.0.0.1:1", tls=tls):
            pass
    assert run_command(["stat", "-b", "127.0.0.1:1", "--ssl-trustfile", str(wrong)]) == 1


def encrypted_copy(plain: Path) -> str:
    """A copy of a key, encrypted with the password `secret`."""
    key = serialization.load_pem_private_key(plain.read_bytes(), None)
    form = serialization.PrivateFormat.PKCS8
    path = plain.with_suffix(".encrypted")
    encrypted = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encrypted))
    return str(path)
