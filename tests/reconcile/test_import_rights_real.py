"""Rights of an old file that are fields of resources: the imported mesh of `waymesh up` refuses the same peers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.raw_client import RawClient, accepted
from tests.kit.local_mode import Up, mesh_up
from tests.reconcile.test_import_real import imported
from waymesh_amqp.performatives import Attach, Terminus

pytestmark = pytest.mark.e2e

FILE = """router {
    id: A
}
policy {
    enableVhostPolicy: yes
}
vhost {
    hostname:
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: open.*
        }
    }
}
vhost {
    hostname: shop
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: *
            sources: shop.*
        }
        $connector: {
            sources: stock.*
        }
    }
}
listener {
    port: 5672
}
listener {
    name: shop
    port: 5673
    policyVhost: shop
}
connector {
    name: broker
    role: route-container
    host: 127.0.0.1
    port: PORT
    policyVhost: shop
}
"""


@pytest.fixture
def acceptor() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(60.0)
        yield found


def allowed(peer: RawClient, *addresses: str) -> list[str]:
    """Which of the addresses it may receive from."""
    peer.begin()
    found = []
    for handle, address in enumerate(addresses):
        source, target = Terminus(kind="source", address=address), Terminus(kind="target")
        peer.put(Attach(name=address, handle=handle, role=True, source=source, target=target))
        if peer.expect(Attach).source is not None:
            found.append(address)
    return found


def port(up: Up, listener: str) -> int:
    return int(up._url("a-0", f"listener/{listener}").rpartition(":")[2])


def test_vhosts_of_listeners_and_connectors_and_of_clients_without_a_host_name(
    tmp_path: Path, acceptor: socket.socket
) -> None:
    file = tmp_path / "a.conf"
    file.write_text(FILE.replace("PORT", str(acceptor.getsockname()[1])), encoding="utf-8")
    asked = ("open.x", "shop.x", "stock.x")
    with mesh_up(tmp_path, imported(file), "a is ready") as up:
        up.wait_for("VhostPolicy/no-host-name is active on 1/1")
        up.wait_for("VhostPolicy/shop is active on 1/1")
        with RawClient(port(up, "amqp")) as client:
            client.open()
            assert allowed(client, *asked) == ["open.x"]
        with RawClient(port(up, "shop")) as client:
            client.open(hostname="elsewhere")
            assert allowed(client, *asked) == ["shop.x"]
        with accepted(acceptor) as broker:
            assert allowed(broker, *asked) == ["stock.x"]
        rows = {row["hostname"]: row for row in up.client("a-0").query("vhostStats")}
    assert (rows[""]["connectionsApproved"], rows["shop"]["connectionsApproved"]) == (1, 1)
