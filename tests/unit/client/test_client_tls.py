"""TLS of the management client: trusted and untrusted servers, and its own certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import proton
import pytest

from tests.kit.certificates import Authority
from tests.unit.client.fake_server import FakeServer, agent_answer
from tests.unit.management.fake_router import Bench
from waymesh_client.channel import Tls
from waymesh_client.errors import ConnectionFailed
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
    with pytest.raises(ConnectionFailed, match="certificate"), ManagementClient(server.url, tls=tls, timeout_s=5):
        pass


def test_no_verification_when_asked(server: FakeServer) -> None:
    with ManagementClient(server.url, tls=Tls(verify=False)) as client:
        assert client.read("router")["id"] == "A"


def test_missing_files(server: FakeServer) -> None:
    tls = Tls(ca="/no/such/file")
    with pytest.raises(ConnectionFailed, match="/no/such/file"), ManagementClient(server.url, tls=tls):
        pass
