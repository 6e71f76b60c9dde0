"""A link between two meshes ends when the certificate of the router that connected expires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.certificates import Authority, KeyPair
from tests.kit.clients import exchange
from tests.kit.ports import free_port
from tests.kit.process import RouterProcess, section
from tests.kit.waiting import wait_until
from waymesh_client.errors import ManagementError
from waymesh_client.management import ManagementClient

pytestmark = [pytest.mark.interop, pytest.mark.e2e]

EXPIRED = "amqp:unauthorized-access: the certificate of the peer expired at "
LIFETIMES_S = (4, 8, 16, 32)
"""Tried in turn: on a slow machine a router may not connect within the first."""


class Meshes:
    """Router N with a listener for other routers, and router S, which has no connector yet."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.north, self.south = (self._router(folder, name) for name in "NS")
        self.number = 0

    def _router(self, folder: Path, name: str) -> RouterProcess:
        port, door = free_port(), free_port()
        text = section("router", id=name, mode="interior")
        text += section("listener", name="clients", host="127.0.0.1", port=port, managementFiles=True)
        if name == "N":
            pair = self.authority.issue("door", {"CN": "door"}, ("127.0.0.1",))
            files = {"caCertFile": self.authority.cert, "certFile": pair.cert, "privateKeyFile": pair.key}
            text += section("sslProfile", name="door", **files)
            text += section(
                "listener", name="door", host="127.0.0.1", port=door, role="inter-router", sslProfile="door",
                requireSsl=True, authenticatePeer=True, saslMechanisms="EXTERNAL", recheckPeers=True,
            )  # fmt: skip
        return RouterProcess(folder, name, text, [port, door] if name == "N" else [port])

    def connect(self, pair: KeyPair) -> None:
        """Make a connector of S with this certificate in place of the former one."""
        files = {"caCertFile": str(self.authority.cert), "certFile": str(pair.cert), "privateKeyFile": str(pair.key)}
        with ManagementClient(self.south.url) as client:
            if self.number:
                client.delete("connector", name=f"to-north-{self.number}")
            self.number += 1
            client.create("sslProfile", files, name=f"token-{self.number}")
            connector = {
                "host": "127.0.0.1", "port": str(self.north.ports[1]), "role": "inter-router",
                "saslMechanisms": "EXTERNAL", "sslProfile": f"token-{self.number}",
            }  # fmt: skip
            client.create("connector", connector, name=f"to-north-{self.number}")

    def link(self) -> tuple[str, str]:
        """connectionStatus and connectionMsg of the connector of S."""
        with ManagementClient(self.south.url) as client:
            try:
                row = client.read("connector", name=f"to-north-{self.number}")
            except ManagementError:
                return "", ""
        return str(row["connectionStatus"]), str(row["connectionMsg"])

    def logs(self) -> str:
        return self.north.log_tail() + self.south.log_tail()


@pytest.fixture
def meshes(tmp_path: Path) -> Iterator[Meshes]:
    meshes = Meshes(tmp_path)
    try:
        meshes.north.start()
        meshes.south.start()
        yield meshes
    finally:
        meshes.south.stop()
        meshes.north.stop()


def test_a_link_ends_with_its_certificate_and_comes_back_with_a_new_one(meshes: Meshes) -> None:
    for lifetime_s in LIFETIMES_S:
        meshes.connect(meshes.authority.issue("token", {"CN": "south"}, lasts_s=lifetime_s))
        status = wait_until(lambda: meshes.link()[0].replace("CONNECTING", ""), what=meshes.logs)
        if status == "SUCCESS" or EXPIRED in meshes.south.log:
            break
    wait_until(lambda: EXPIRED in meshes.south.log, 2 * LIFETIMES_S[-1], meshes.logs)
    wait_until(lambda: f" closed: {EXPIRED}" in meshes.north.log, what=meshes.logs)
    wait_until(lambda: meshes.link()[0] == "FAILED", what=meshes.logs)
    (told,) = [line for line in meshes.north.log.splitlines() if "event=certificate.expires" in line]
    assert 'CN=south [event=certificate.expires user="CN=south" router=S host=127.0.0.1:' in told
    meshes.connect(meshes.authority.issue("fresh", {"CN": "south"}, lasts_s=600))
    wait_until(lambda: meshes.link()[0] == "SUCCESS", what=meshes.logs)
    exchange(meshes.north.url, meshes.south.url, "across")
    fresh = f"[event=certificate.expires connector=to-north-{meshes.number}]"
    wait_until(lambda: fresh in meshes.south.log, what=meshes.logs)
